// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>

namespace softrdma
{

// IBA table "RNR NAK timer": microseconds for the 5-bit code.
inline constexpr std::array<std::uint32_t, 32> rnr_delay_us = {655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480,
        640, 960, 1280, 1920, 2560, 3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840,
        245760, 327680, 491520};

inline constexpr std::uint8_t infinite_retry = 7;

} // namespace softrdma
