# SPDX-License-Identifier: BSD-3-Clause
"""Checksums of RoCE packets, computed independently of the device."""

import struct
import zlib


def folded_sum(data: bytes) -> int:
    """Returns the Internet checksum's sum of 16-bit words, before its complement."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xffff:
        total = (total & 0xffff) + (total >> 16)
    return total


def invariant_crc(ip: bytes) -> bytes:
    """Returns the CRC of an IP packet that ends with one. Fields that routers change are masked."""
    masked = bytearray(ip[:-4])
    if ip[0] >> 4 == 4:
        offsets = (1, 8, 10, 11, 26, 27, 32)
    else:
        masked[0] |= 0x0f
        offsets = (1, 2, 3, 7, 46, 47, 52)
    for offset in offsets:
        masked[offset] = 0xff
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(masked)))


def wrong_checksum(frame: bytes) -> str:
    """Returns the name of a wrong checksum of an Ethernet frame, or an empty string."""
    ip = frame[14:]
    if ip[0] >> 4 == 4:
        udp, addresses = ip[20:], ip[12:20]
        if ip[0] != 0x45 or folded_sum(ip[:20]) != 0xffff:
            return "IPv4"
    else:
        udp, addresses = ip[40:], ip[8:40]
    has_checksum = udp[6:8] != b"\0\0" or len(addresses) > 8 # an IPv4 packet may have none
    if has_checksum and folded_sum(addresses + struct.pack(">II", len(udp), 17) + udp) != 0xffff:
        return "UDP"
    return "" if invariant_crc(ip) == ip[-4:] else "invariant CRC"


def with_identification(frame: bytes, number: int) -> bytes:
    """Returns an IPv4 packet with that identification and without a UDP checksum, as from another device."""
    ip = bytearray(frame[14:])
    ip[4:6] = struct.pack(">H", number)
    ip[10:12] = ip[26:28] = b"\0\0"
    ip[10:12] = struct.pack(">H", folded_sum(bytes(ip[:20])) ^ 0xffff)
    ip[-4:] = invariant_crc(bytes(ip))
    return frame[:14] + bytes(ip)


def congestion_notification(frame: bytes) -> bytes:
    """Returns a congestion notification packet with the addresses and the destination of an IPv4 packet."""
    bth = b"\x81\0\xff\xff\x40" + frame[47:50] + bytes(4)
    packet = frame[:42] + bth + bytes(16 + 4)
    lengths = struct.pack(">H", len(packet) - 14), struct.pack(">H", len(packet) - 34)
    return with_identification(packet[:16] + lengths[0] + packet[18:38] + lengths[1] + packet[40:], 0)
