// SPDX-License-Identifier: BSD-3-Clause
#include "mr.hpp"

#include <cinttypes>

#include "boundary.hpp"
#include "endian.hpp"
#include "log.hpp"

using namespace rpma;

namespace
{

constexpr int all_usages = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC |
                           RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
                           RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV;

// Offsets in the descriptor: base address, size and key, little-endian, then the usage.
constexpr std::size_t base_at = 0;
constexpr std::size_t size_at = 8;
constexpr std::size_t rkey_at = 16;
constexpr std::size_t usage_at = 20;
static_assert(usage_at + 1 == rpma_mr_remote::descriptor_size);

// A descriptor has no free bit for a region that supports only visibility. Such a region is marked by a combination
// that has no other meaning: every local usage, which does not concern the peer, but not writable, so a peer cannot
// flush it. librpma 1.3.0 cannot register such regions, and reads only the flush types.
constexpr unsigned local_usages =
        RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV;
constexpr unsigned visibility_only_tag = RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT | local_usages;

unsigned tag_visibility_only(unsigned usage)
{
    return (usage | visibility_only_tag) & ~unsigned{RPMA_MR_USAGE_WRITE_DST};
}

constexpr unsigned flush_types = RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;

bool is_visibility_only(unsigned usage)
{
    return (usage & (visibility_only_tag | RPMA_MR_USAGE_WRITE_DST)) == visibility_only_tag;
}

} // namespace

result<rpma_mr_local *> rpma_mr_local::create(rpma_peer &peer, void *ptr, std::size_t size, int usage)
{
    RPMA_ASSIGN_OR_RETURN(auto registered, peer.register_memory(ptr, size, usage));
    const auto described_usage = static_cast<unsigned>(usage);
    const unsigned native_flush_types = registered.visibility_only ? unsigned{RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY}
                                        : peer.has_native_flush()  ? described_usage & flush_types
                                                                   : 0U;
    auto *const mr = new rpma_mr_local(std::move(registered.mr),
            registered.visibility_only ? tag_visibility_only(described_usage) : described_usage, native_flush_types,
            peer.max_message());
    if (mr == nullptr)
        return errc::nomem;
    return mr;
}

void rpma_mr_local::write_descriptor(unsigned char *to) const
{
    store_le(to + base_at, whole_.addr);
    store_le(to + size_at, std::uint64_t{size_});
    store_le(to + rkey_at, mr_->rkey);
    to[usage_at] = static_cast<unsigned char>(described_usage_);
}

errc rpma_mr_local::advise(std::size_t offset, std::size_t len, int advice, std::uint32_t flags) const
{
    if (len > UINT32_MAX || len > size_ || offset > size_ - len)
        return errc::inval;
    return rdma::advise_memory(mr_.get(), offset, static_cast<std::uint32_t>(len), advice, flags);
}

result<rpma_mr_remote *> rpma_mr_remote::create(const unsigned char *descriptor)
{
    const auto base = load_le<std::uint64_t>(descriptor + base_at);
    const auto size = load_le<std::uint64_t>(descriptor + size_at);
    const auto rkey = load_le<std::uint32_t>(descriptor + rkey_at);
    const unsigned usage = descriptor[usage_at];
    if (usage == 0) {
        RPMA_LOG_ERROR("memory region descriptor: invalid: usage is empty\n");
        return errc::inval;
    }
    auto *const mr = new rpma_mr_remote(base, size, rkey, usage, is_visibility_only(usage));
    if (mr == nullptr)
        return errc::nomem;
    RPMA_LOG_DEBUG("remote memory region: address 0x%" PRIx64 ", size 0x%" PRIx64 ", rkey 0x%" PRIx32
                   ", usage 0x%02x\n",
            base, size, rkey, usage);
    return mr;
}

void rpma_mr_remote::warn_if_unaligned() const
{
    if (base_ % 8 != 0 && !warned_unaligned_.exchange(true))
        RPMA_LOG_WARNING(
                "remote region 0x%" PRIx64 ": not aligned to 8 bytes: atomic writes to it are not atomic\n", base_);
}

extern "C" {

int rpma_mr_reg(struct rpma_peer *peer, void *ptr, size_t size, int usage, struct rpma_mr_local **mr_ptr)
{
    if (peer == nullptr || ptr == nullptr || size == 0 || mr_ptr == nullptr)
        return RPMA_E_INVAL;
    if (usage == 0 || (usage & ~all_usages) != 0)
        return RPMA_E_INVAL;
    return return_handle(rpma_mr_local::create(*peer, ptr, size, usage), mr_ptr);
}

int rpma_mr_dereg(struct rpma_mr_local **mr_ptr)
{
    return close_and_delete(mr_ptr);
}

int rpma_mr_get_ptr(const struct rpma_mr_local *mr, void **ptr)
{
    if (mr == nullptr || ptr == nullptr)
        return RPMA_E_INVAL;
    *ptr = mr->ptr();
    return 0;
}

int rpma_mr_get_size(const struct rpma_mr_local *mr, size_t *size)
{
    if (mr == nullptr || size == nullptr)
        return RPMA_E_INVAL;
    *size = mr->size();
    return 0;
}

int rpma_mr_get_native_flush_type(const struct rpma_mr_local *mr, int *flush_type)
{
    if (mr == nullptr || flush_type == nullptr)
        return RPMA_E_INVAL;
    *flush_type = static_cast<int>(mr->native_flush_types());
    return 0;
}

int rpma_mr_get_descriptor(const struct rpma_mr_local *mr, void *desc)
{
    if (mr == nullptr || desc == nullptr)
        return RPMA_E_INVAL;
    mr->write_descriptor(static_cast<unsigned char *>(desc));
    return 0;
}

int rpma_mr_get_descriptor_size(const struct rpma_mr_local *mr, size_t *desc_size)
{
    if (mr == nullptr || desc_size == nullptr)
        return RPMA_E_INVAL;
    *desc_size = rpma_mr_remote::descriptor_size;
    return 0;
}

int rpma_mr_remote_from_descriptor(const void *desc, size_t desc_size, struct rpma_mr_remote **mr_ptr)
{
    if (desc == nullptr || mr_ptr == nullptr)
        return RPMA_E_INVAL;
    if (desc_size < rpma_mr_remote::descriptor_size) {
        RPMA_LOG_ERROR("memory region descriptor: invalid size %zu (expected %zu)\n", desc_size,
                rpma_mr_remote::descriptor_size);
        return RPMA_E_INVAL;
    }
    return return_handle(rpma_mr_remote::create(static_cast<const unsigned char *>(desc)), mr_ptr);
}

int rpma_mr_remote_delete(struct rpma_mr_remote **mr_ptr)
{
    return delete_plain(mr_ptr);
}

int rpma_mr_remote_get_size(const struct rpma_mr_remote *mr, size_t *size)
{
    if (mr == nullptr || size == nullptr)
        return RPMA_E_INVAL;
    *size = mr->size();
    return 0;
}

int rpma_mr_remote_get_flush_type(const struct rpma_mr_remote *mr, int *flush_type)
{
    if (mr == nullptr || flush_type == nullptr)
        return RPMA_E_INVAL;
    *flush_type = static_cast<int>(mr->usage() & flush_types);
    return 0;
}

int rpma_mr_advise(struct rpma_mr_local *mr, size_t offset, size_t len, int advice, uint32_t flags)
{
    if (mr == nullptr)
        return RPMA_E_INVAL;
    return to_int(mr->advise(offset, len, advice, flags));
}

} // extern "C"
