// SPDX-License-Identifier: BSD-3-Clause
#include "store/pool.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <sys/random.h>
#include <utility>

#include "config/failure.hpp"
#include "store/header_check.hpp"
#include "store/set_file.hpp"

namespace rpmemd
{

namespace
{

constexpr pool_attributes no_attributes{};
constexpr std::uint64_t max_size = 0;

uuid new_uuid()
{
    uuid id{};
    if (getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size()))
        throw system_failure("cannot get random bytes for a uuid");
    id[6] = static_cast<unsigned char>((id[6] & 0x0f) | 0x40);
    id[8] = static_cast<unsigned char>((id[8] & 0x3f) | 0x80);
    return id;
}

bool is_set(const uuid &id)
{
    return !is_zero(id);
}

// Fills in the attributes that the user did not set. A replica without neighbors is a ring of one.
pool_attributes completed(pool_attributes attributes, const uuid &set_uuid, const uuid &first_uuid)
{
    if (!is_set(attributes.poolset_uuid))
        attributes.poolset_uuid = set_uuid;
    if (!is_set(attributes.first_uuid))
        attributes.first_uuid = first_uuid;
    for (uuid *const id : {&attributes.next_uuid, &attributes.prev_uuid})
        if (!is_set(*id))
            *id = attributes.first_uuid;
    if (is_zero(attributes.user_flags))
        attributes.user_flags = native_arch_flags();
    return attributes;
}

void check_attributes(const poolset &set, const pool_attributes &attributes)
{
    const bool has_attributes = attributes != no_attributes;
    if (set.no_headers && has_attributes)
        throw failure(EINVAL, "OPTION NOHDRS: the pool must not have attributes");
    if (!set.no_headers && !has_attributes)
        throw failure(EINVAL, "attributes: required for a pool of a set without OPTION NOHDRS");
    const bool single = (attributes.incompat_features & feature_single_header) != 0;
    if (has_attributes && single != set.single_header)
        throw failure(EINVAL, set.single_header ? "OPTION SINGLEHDR: set in the set file but not in the attributes"
                                                : "OPTION SINGLEHDR: set in the attributes but not in the set file");
}

void check_size(const config &settings, std::uint64_t size, std::uint64_t usable)
{
    if (size < min_pool_size || size % page_size != 0)
        throw failure(EINVAL, "pool size: must be at least 8 KiB and a multiple of 4 KiB");
    if (size > usable)
        throw failure(EFBIG, "set too small: " + std::to_string(usable) + " bytes available, " + std::to_string(size) +
                                     " requested");
    if (size > settings.limits.bytes)
        throw failure(EFBIG, "pool size: the target allows at most " + std::to_string(settings.limits.bytes) +
                                     " bytes (see max-bytes in rpmemd.conf)");
}

// Makes the bytes zero, durably. Skips pages that are zero.
void clear(const pool_memory &memory, std::uint64_t from, std::uint64_t end)
{
    for (std::uint64_t at = from; at < end; at += page_size) {
        const std::span<std::byte> page(memory.address() + at, std::min(page_size, end - at));
        if (!std::ranges::all_of(page, [](std::byte b) { return b == std::byte{0}; }))
            std::ranges::fill(page, std::byte{0});
    }
    if (from < end)
        if (const int error = memory.persist(from, end - from); error != 0)
            throw system_failure("cannot flush the parts", error);
}

header_page page_at(const std::byte *from)
{
    header_page page{};
    std::memcpy(page.data(), from, page.size());
    return page;
}

} // namespace

pool::pool(const config &settings, poolset set, std::uint64_t size, bool create) : set_(std::move(set))
{
    part_options options{create, settings.follow_symlinks, settings.umask, !settings.listen && !settings.check};
    options.may_grow = settings.listen.has_value();
    parts_ = open_parts(set_, options);
    try {
        const std::size_t left_out = header_count() > 1 ? header_size : 0;
        const std::uint64_t usable = usable_size(parts_, left_out);
        check_size(settings, size == max_size ? std::min(usable, settings.limits.bytes) : size, usable);
        use(std::make_unique<pool_memory>(parts_, left_out));
        for (std::size_t i = 1; i < header_count(); ++i)
            headers_.push_back(parts_[i].map_header());
    } catch (...) {
        rollback_create();
        throw;
    }
}

void pool::use(std::unique_ptr<pool_memory> memory)
{
    memories_.push_back(std::move(memory));
    std::atomic_ref(memory_).store(memories_.back().get());
}

// Returns lines of parts to create. Throws failure unless the set file has the capacity, and lists the open parts.
std::vector<part_line> pool::check_growth(const poolset &listed, std::uint64_t size) const
{
    std::uint64_t usable = 0;
    for (std::size_t i = 0; i < std::max(listed.parts.size(), parts_.size()); ++i) {
        const bool is_open = i < parts_.size();
        const part_line line = i < listed.parts.size() ? listed.parts[i] : part_line();
        const std::uint64_t open_size = is_open ? parts_[i].size() : 0,
                            listed_size = line.size == 0 ? open_size : line.size;
        if (is_open && (line.path != parts_[i].path() || listed_size < open_size ||
                               (listed_size != open_size && i + 1 != parts_.size())))
            throw failure(EINVAL, "part " + parts_[i].path() +
                                          ": differs from the set file (only the last part can be extended, "
                                          "and parts can be added after it)");
        usable += listed_size / page_size * page_size;
    }
    if (size > usable)
        throw failure(EFBIG, "set too small: its parts have " + std::to_string(usable) + " bytes, " +
                                     std::to_string(size) +
                                     " requested (increase the size of the last part in the set file, or add a part)");
    return {listed.parts.begin() + static_cast<std::ptrdiff_t>(parts_.size()), listed.parts.end()};
}

pool::extension pool::make_extension(
        const config &settings, const std::string &set_name, std::uint64_t from, std::uint64_t size)
{
    check_size(settings, size, size);
    extension created;
    const std::uint64_t used = memory().size();
    if (size <= used) {
        clear(memory(), from, size);
        return created;
    }
    const poolset listed = read_poolset(settings.poolset_dir, set_name);
    const std::vector<part_line> missing = check_growth(listed, size);
    part_options options{true, settings.follow_symlinks, settings.umask};
    options.may_grow = true;
    try {
        for (const part_line &line : missing)
            created.parts.emplace_back(line, options);
        const std::uint64_t last = listed.parts[parts_.size() - 1].size;
        if (last > parts_.back().size())
            parts_.back().extend(last);
        created.memory = std::make_unique<pool_memory>(parts_, 0, created.parts);
        // Parts that existed can have any content.
        clear(*created.memory, from, std::ranges::all_of(created.parts, &part::was_created) ? used : size);
    } catch (...) {
        for (part &p : created.parts)
            if (p.was_created())
                p.remove();
        throw;
    }
    return created;
}

void pool::add(extension created)
{
    if (!created.memory)
        return;
    std::ranges::move(created.parts, std::back_inserter(parts_));
    use(std::move(created.memory));
}

std::size_t pool::header_count() const
{
    return set_.no_headers ? 0 : set_.single_header ? 1 : parts_.size();
}

std::byte *pool::header_address(std::size_t index) const
{
    return index == 0 ? memory().address() : headers_[index - 1].address();
}

std::vector<header_page> pool::header_pages() const
{
    std::vector<header_page> pages;
    for (std::size_t i = 0; i < header_count(); ++i)
        pages.push_back(page_at(header_address(i)));
    return pages;
}

bool pool::exists() const
{
    return std::ranges::any_of(header_pages(), [](const header_page &page) { return !is_zero(page); });
}

pool pool::create(
        const config &settings, const std::string &set_name, std::uint64_t size, const pool_attributes &attributes)
{
    poolset set = read_poolset(settings.poolset_dir, set_name);
    check_attributes(set, attributes);
    pool created(settings, std::move(set), size, true);
    try {
        if (created.exists())
            throw failure(EEXIST,
                    "pool already exists: a part of the set has a pool header (open the pool, or remove it with "
                    "rpmemd --remove)");
        if (created.has_header())
            created.write_new_headers(completed(attributes, new_uuid(), new_uuid()));
    } catch (...) {
        created.rollback_create();
        throw;
    }
    return created;
}

pool pool::open(const config &settings, const std::string &set_name, std::uint64_t size)
{
    pool opened(settings, read_poolset(settings.poolset_dir, set_name), size, false);
    check_headers(opened.header_pages(), opened.set_.single_header, opened.parts_);
    return opened;
}

pool pool::probe(const config &settings, const poolset &set)
{
    const bool creates = std::ranges::none_of(set.parts, is_directory);
    pool found(settings, set, max_size, creates);
    try {
        if (!creates || found.exists())
            check_headers(found.header_pages(), found.set_.single_header, found.parts_);
    } catch (...) {
        found.rollback_create();
        throw;
    }
    return found;
}

int pool::persist_header(std::size_t index)
{
    return index == 0 ? memory().deep_persist(0, header_size) : headers_[index - 1].deep_persist({0, header_size});
}

void pool::write_header(std::size_t index, const pool_header &header)
{
    std::byte *const to = header_address(index);
    const header_page page = encode(header, page_at(to));
    std::memcpy(to, page.data(), page.size());
    if (const int error = persist_header(index); error != 0)
        throw system_failure("cannot flush the header of " + parts_[index].path(), error);
}

void pool::write_new_headers(const pool_attributes &attributes)
{
    std::vector<uuid> ids = {attributes.first_uuid};
    while (ids.size() < header_count())
        ids.push_back(new_uuid());
    wrote_headers_ = true;
    // Writes the header of the first part last, because it makes the pool exist.
    for (std::size_t i = ids.size(); i-- > 0;) {
        pool_header header;
        rpmemd::set_attributes(header, attributes);
        header.part_uuid = ids[i];
        header.prev_part_uuid = ids[(i + ids.size() - 1) % ids.size()];
        header.next_part_uuid = ids[(i + 1) % ids.size()];
        header.creation_time = parts_[i].creation_time();
        write_header(i, header);
    }
}

void pool::stop_populating()
{
    for (const auto &memory : memories_)
        memory->stop_populating();
}

std::vector<int> pool::files() const
{
    std::vector<int> all;
    for (const part &p : parts_)
        all.push_back(p.fd());
    return all;
}

pool_attributes pool::attributes() const
{
    return has_header() ? attributes_of(decode(page_at(header_address(0)))) : no_attributes;
}

void pool::set_attributes(const pool_attributes &attributes)
{
    check_attributes(set_, attributes);
    const pool_attributes before = this->attributes();
    const pool_attributes now = completed(attributes, before.poolset_uuid, before.first_uuid);
    for (std::size_t i = header_count(); i-- > 0;) {
        pool_header header = decode(page_at(header_address(i)));
        rpmemd::set_attributes(header, now);
        for (uuid *const id : {&header.part_uuid, &header.prev_part_uuid, &header.next_part_uuid})
            if (*id == before.first_uuid)
                *id = now.first_uuid;
        write_header(i, header);
    }
}

void pool::rollback_create()
{
    // Clears the headers of files that existed before: their first page was empty.
    for (std::size_t i = 0; wrote_headers_ && i < header_count(); ++i)
        if (!parts_[i].was_created()) {
            std::memset(header_address(i), 0, header_size);
            (void)persist_header(i);
        }
    for (part &p : parts_)
        if (p.was_created())
            p.remove();
}

} // namespace rpmemd
