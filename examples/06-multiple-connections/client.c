// SPDX-License-Identifier: BSD-3-Clause
#include "names.h"

int main(int argc, char **argv)
{
    return names_client(argc, argv);
}
