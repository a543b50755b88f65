// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

namespace replica
{

// Parts of a text, as substr() gives them, without what it needs of the C++ runtime. at is not beyond the end.
inline std::string_view text_before(std::string_view text, std::size_t at)
{
    return {text.data(), at};
}
inline std::string_view text_after(std::string_view text, std::size_t at)
{
    return {text.data() + at, text.size() - at};
}

} // namespace replica
