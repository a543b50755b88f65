// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>
#include <unistd.h>

// Writes the whole text. Returns false with errno: a full disk takes a part before write() fails.
inline bool write_all(int fd, std::string_view text)
{
    while (!text.empty()) {
        const ssize_t written = write(fd, text.data(), text.size());
        if (written < 0)
            return false;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}
