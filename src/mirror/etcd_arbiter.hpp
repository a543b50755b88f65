// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>

#include "arbiter.hpp"
#include "base/fd_owner.hpp"
#include "etcd_client.hpp"

namespace mirror
{

// Arbiter in a cluster of etcd v3. A set has three keys below the prefix and its UUID: `record`, the last committed
// record; `epoch`, the highest granted epoch; and `writer`, bound to its lease. Transactions compare their revisions.
class etcd_arbiter : public arbiter
{
public:
    // Parses the settings after "etcd". Throws failure with E_INVAL.
    explicit etcd_arbiter(const std::string &words);

    record newest(const replica::set_uuid &set, bool seize, const replica::deadline &until) override;
    promise acquire(
            const promise &requested, bool seize, record &newest_record, const replica::deadline &until) override;
    void commit(const record &next, const replica::deadline &until) override;
    void renew(const replica::deadline &until) override;
    int renew_ms() const override { return ttl_s_ * 1000 / 3; }
    bool lost() const noexcept override { return replica::boot_time_ms() >= valid_until_ms_; }
    int lost_fd() const noexcept override { return expiry_.get(); }
    std::int64_t lease_left_ms() const noexcept override
    {
        return std::max<std::int64_t>(valid_until_ms_ - replica::boot_time_ms(), 0);
    }
    void release(const replica::deadline &until) noexcept override;

private:
    struct key_state {
        std::string revision = "0"; // "0" if the key does not exist
        std::string value;
    };

    std::string key(const char *name) const { return to_base64(key_prefix_ + name); }
    key_state fetch_key(etcd_client &with, const char *name, const replica::deadline &until) const;
    void connect(const replica::set_uuid &set);
    void reject_busy(const key_state &writer) const;
    void grant(const replica::deadline &until);
    bool try_acquire(const promise &requested, bool seize, record &newest_record, promise &granted,
            const replica::deadline &until);
    void set_valid_from(std::int64_t requested_at_ms);

    etcd_settings settings_;
    std::string prefix_ = "/rpma/mirror/";
    int ttl_s_ = 10;
    // The first client is used with the membership lock held, the second one for renewing.
    std::unique_ptr<etcd_client> client_, renewing_;
    std::string key_prefix_;
    std::string lease_;           // empty without a lease
    std::string writer_revision_; // revision of the key `writer` that this writer has set
    std::atomic<std::int64_t> valid_until_ms_ = INT64_MAX;
    replica::fd_owner expiry_; // a timer
};

} // namespace mirror
