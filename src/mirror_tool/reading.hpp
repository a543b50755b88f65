// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "options.hpp"
#include "set.hpp"

namespace mirror_tool
{

class image_of_set
{
public:
    image_of_set(const rpma_mirror_cfg *cfg, bool any_time, int timeout_ms);
    ~image_of_set() { rpma_mirror_unmap_read_only(&reader_); }
    image_of_set(const image_of_set &) = delete;
    image_of_set &operator=(const image_of_set &) = delete;

    const rpma_mirror_image &get() const { return *image_; }
    // Writes the image to a file, which replaces `path` when it is complete and durable.
    void write(const std::string &path) const;

private:
    rpma_mirror_reader *reader_ = nullptr;
    const std::unique_ptr<rpma_mirror_image> image_ = make_output<rpma_mirror_image>();
};

} // namespace mirror_tool
