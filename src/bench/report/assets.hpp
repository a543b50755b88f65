// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The files of assets/, put into the program by the build.
namespace bench::report::assets
{

extern const char *const html;
extern const char *const html_table;
extern const char *const markdown;
extern const char *const markdown_table;
extern const char *const style;
extern const char *const script;

} // namespace bench::report::assets
