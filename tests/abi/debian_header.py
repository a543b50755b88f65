#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the recorded interface of the first release with Debian's header."""

import argparse
import pathlib

import header
import suite


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--debian", required=True, type=pathlib.Path)
    header.check(suite.Debian(parser.parse_args().debian).include, ["LIBRPMA_1.0"])


if __name__ == "__main__":
    main()
