# SPDX-License-Identifier: BSD-3-Clause
"""Reports of result files."""
