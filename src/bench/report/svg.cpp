// SPDX-License-Identifier: BSD-3-Clause
#include "svg.hpp"

#include <cmath>
#include <fmt/format.h>

namespace bench::report
{

attribute_value::attribute_value(double number) : text_(fmt::format("{:.6g}", std::round(number * 10) / 10)) {}

std::string escape_xml(std::string_view text)
{
    std::string out;
    for (const char c : text) {
        switch (c) {
        case '&':
            out += "&amp;";
            break;
        case '<':
            out += "&lt;";
            break;
        case '>':
            out += "&gt;";
            break;
        case '"':
            out += "&quot;";
            break;
        default:
            out += c;
        }
    }
    return out;
}

svg::svg(double width, double height, const std::string &id, const std::string &title, const std::string &description)
{
    open("svg", {{"viewBox", fmt::format("0 0 {:g} {:g}", width, height)}, {"role", "img"},
                        {"aria-labelledby", id + "-t " + id + "-d"}});
    out_ += fmt::format("<title id=\"{0}-t\">{1}</title><desc id=\"{0}-d\">{2}</desc>\n", id, escape_xml(title),
            escape_xml(description));
}

svg::svg(double width, double height, const char *classes)
{
    open("svg",
            {{"viewBox", fmt::format("0 0 {:g} {:g}", width, height)}, {"class", classes}, {"aria-hidden", "true"}});
}

void svg::begin(const char *element, attributes a)
{
    out_ += fmt::format("<{}", element);
    for (const auto &[name, value] : a)
        out_ += fmt::format(" {}=\"{}\"", name, escape_xml(value.text_));
}

void svg::open(const char *element, attributes a)
{
    begin(element, a);
    out_ += ">";
    open_elements_.push_back(element);
}

void svg::close()
{
    out_ += fmt::format("</{}>\n", open_elements_.back());
    open_elements_.pop_back();
}

void svg::leaf(const char *element, attributes a)
{
    begin(element, a);
    out_ += "/>\n";
}

void svg::text(double x, double y, std::string_view words, const char *classes)
{
    begin("text", {{"x", x}, {"y", y}, {"class", classes}});
    out_ += ">" + escape_xml(words) + "</text>\n";
}

void svg::tooltip(std::string_view words)
{
    out_ += "<title>" + escape_xml(words) + "</title>";
}

std::string svg::finish()
{
    while (!open_elements_.empty())
        close();
    return std::move(out_);
}

} // namespace bench::report
