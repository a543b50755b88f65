# SPDX-License-Identifier: BSD-3-Clause
"""rpma-bench: plans measurements, starts their two ends, keeps results and writes reports."""
