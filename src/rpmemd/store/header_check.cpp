// SPDX-License-Identifier: BSD-3-Clause
#include "store/header_check.hpp"

#include <algorithm>

#include "config/failure.hpp"

namespace rpmemd
{

namespace
{

using headers = std::vector<pool_header>;

template<class M>
void check_same(const headers &all, M pool_header::*member, const char *field, const std::vector<part> &parts)
{
    for (std::size_t i = 1; i < all.size(); ++i)
        if (all[i].*member != all[0].*member)
            throw failure(EINVAL, std::string(field) + " of " + parts[i].path() + " differs from " + parts[0].path() +
                                          " (the parts belong to different pools)");
}

void check_not_zero(const std::vector<header_page> &pages, const std::vector<part> &parts)
{
    for (std::size_t i = 0; i < pages.size(); ++i)
        if (is_zero(pages[i]))
            throw failure(EINVAL, "part " + parts[i].path() + ": pool header missing (create the pool first)");
}

void check_checksums(const std::vector<header_page> &pages, const std::vector<part> &parts)
{
    for (std::size_t i = 0; i < pages.size(); ++i)
        if (!checksum_matches(pages[i]))
            throw failure(EIO, "part " + parts[i].path() + ": pool header damaged: checksum mismatch");
}

void check_ring(const headers &all, const std::vector<part> &parts)
{
    const std::size_t count = all.size();
    for (std::size_t i = 0; i < count; ++i)
        if (all[i].next_part_uuid != all[(i + 1) % count].part_uuid ||
                all[i].prev_part_uuid != all[(i + count - 1) % count].part_uuid)
            throw failure(EINVAL,
                    "part " + parts[i].path() + ": UUID chain broken (check the order of the parts in the set file)");
}

void check_shutdown(const pool_header &first, const std::vector<part> &parts)
{
    const shutdown_state &state = first.shutdown;
    // A wrong checksum means that power was lost while the state was written. No other data was being written then.
    if ((first.incompat_features & feature_shutdown_state) == 0 || !state.dirty || !state.checksum_matches)
        return;
    std::uint64_t unsafe_count = 0;
    for (const part &p : parts)
        unsafe_count += replica::unsafe_shutdown_count(p.fd());
    if (unsafe_count != state.unsafe_count)
        throw failure(EINVAL, "pool: in use when its device lost power without flushing: content may be damaged "
                              "(restore it from another replica)");
}

} // namespace

void check_headers(const std::vector<header_page> &pages, bool single_header, const std::vector<part> &parts)
{
    if (pages.empty())
        return;
    check_not_zero(pages, parts);
    headers all;
    for (const header_page &page : pages)
        all.push_back(decode(page));
    check_same(all, &pool_header::signature, "the signature", parts);
    check_same(all, &pool_header::major, "the major version", parts);
    check_same(all, &pool_header::compat_features, "a feature", parts);
    check_same(all, &pool_header::incompat_features, "a feature", parts);
    check_same(all, &pool_header::ro_compat_features, "a feature", parts);
    if (((all[0].incompat_features & feature_single_header) != 0) != single_header)
        throw failure(EINVAL, single_header ? "OPTION SINGLEHDR: set in the set file but not in the pool header"
                                            : "OPTION SINGLEHDR: set in the pool header but not in the set file");
    check_checksums(pages, parts);
    check_same(all, &pool_header::poolset_uuid, "the set's uuid", parts);
    check_same(all, &pool_header::prev_replica_uuid, "the previous replica", parts);
    check_same(all, &pool_header::next_replica_uuid, "the next replica", parts);
    check_same(all, &pool_header::arch_flags, "the architecture", parts);
    check_ring(all, parts);
    check_shutdown(all[0], parts);
}

} // namespace rpmemd
