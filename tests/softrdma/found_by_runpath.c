/* SPDX-License-Identifier: BSD-3-Clause */
int found_by_runpath(void);
int found_by_runpath(void)
{
    return 41;
}
