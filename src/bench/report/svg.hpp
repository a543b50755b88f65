// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Writes SVG: nested elements, escaped, coordinates to a tenth.
namespace bench::report
{

struct attribute_value {
    attribute_value(const char *text) : text_(text) {}
    attribute_value(std::string text) : text_(std::move(text)) {}
    attribute_value(double number);

    std::string text_;
};

class svg
{
public:
    using attributes = std::initializer_list<std::pair<const char *, attribute_value>>;

    // A drawing that fills its container; title and description are read to people who cannot see it.
    svg(double width, double height, const std::string &id, const std::string &title, const std::string &description);
    // An ornament that says nothing to people who cannot see it.
    svg(double width, double height, const char *classes);

    void open(const char *element, attributes a = {});
    void close();
    void leaf(const char *element, attributes a);
    void text(double x, double y, std::string_view words, const char *classes);
    // Words that appear when the pointer rests on the open element.
    void tooltip(std::string_view words);

    // Closes what is open.
    std::string finish();

private:
    void begin(const char *element, attributes a);

    std::string out_;
    std::vector<const char *> open_elements_;
};

std::string escape_xml(std::string_view text);

} // namespace bench::report
