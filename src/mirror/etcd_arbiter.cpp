// SPDX-License-Identifier: BSD-3-Clause
#include "etcd_arbiter.hpp"

#include <algorithm>
#include <sstream>
#include <sys/timerfd.h>

#include "failure.hpp"

namespace mirror
{

namespace
{

using nlohmann::json;

// Safety margin that a writer subtracts from its lease, because clocks run at different rates.
constexpr int margin_percent = 10;

[[noreturn]] void reject(const std::string &reason)
{
    throw failure(RPMA_MIRROR_E_INVAL, "arbiter etcd: " + reason +
                                               " (syntax: arbiter etcd URL[,URL...] [ttl SECONDS] [prefix PREFIX] [ca "
                                               "FILE] [certificate FILE key FILE] [user NAME password-file FILE])");
}

json write_record(const replica::mirror_record &r)
{
    return {{"epoch", r.epoch}, {"version", r.version}, {"writer", r.writer}, {"members", r.members},
            {"in_sync", r.in_sync}, {"policy", static_cast<std::uint32_t>(r.policy)}, {"closed", r.closed},
            {"home", r.writer_copy}, {"mark", r.mark}};
}

replica::mirror_record read_record(const std::string &text)
{
    replica::mirror_record r;
    if (text.empty())
        return r;
    const json from = json::parse(text);
    r.epoch = from.at("epoch");
    r.version = from.at("version");
    r.writer = from.at("writer");
    r.members = from.at("members");
    r.in_sync = from.at("in_sync");
    r.policy = static_cast<replica::mirror_policy>(from.at("policy").get<std::uint32_t>());
    r.closed = from.at("closed");
    r.writer_copy = from.at("home");
    r.mark = from.at("mark");
    return r;
}

json is_at(const std::string &key, const std::string &revision)
{
    return {{"key", key}, {"target", "MOD"}, {"result", "EQUAL"}, {"mod_revision", revision}};
}

json put(const std::string &key, const std::string &value, const std::string &lease = "0")
{
    return {{"request_put", {{"key", key}, {"value", to_base64(value)}, {"lease", lease}}}};
}

bool succeeded(const json &response)
{
    return response.value("succeeded", false);
}

// Calls f. Throws failure for a malformed response of etcd.
template<class F>
auto understood(F &&f)
{
    try {
        return f();
    } catch (const json::exception &error) {
        throw failure(RPMA_MIRROR_E_ARBITER, std::string("etcd: invalid response: ") + error.what());
    }
}

} // namespace

etcd_arbiter::etcd_arbiter(const std::string &words)
{
    std::istringstream from(words);
    std::string urls;
    from >> urls;
    std::istringstream list(urls);
    for (std::string url; std::getline(list, url, ',');) {
        if (!url.starts_with("http://") && !url.starts_with("https://"))
            reject("invalid URL '" + url + "'");
        settings_.endpoints.push_back(url.ends_with('/') ? url.substr(0, url.size() - 1) : url);
    }
    if (settings_.endpoints.empty())
        reject("URL missing");
    for (std::string name, value; from >> name;) {
        if (!(from >> value))
            reject("value of '" + name + "' missing");
        if (name == "ttl") {
            if (value.size() > 4 || value.find_first_not_of("0123456789") != std::string::npos || std::stoi(value) < 2)
                reject("invalid ttl '" + value + "' (2 to 9999 seconds)");
            ttl_s_ = std::stoi(value);
        } else if (name == "prefix")
            prefix_ = value;
        else if (name == "ca")
            settings_.ca = value;
        else if (name == "certificate")
            settings_.certificate = value;
        else if (name == "key")
            settings_.key = value;
        else if (name == "user")
            settings_.user = value;
        else if (name == "password-file")
            settings_.password_file = value;
        else
            reject("unknown setting '" + name + "'");
    }
    if (settings_.certificate.empty() != settings_.key.empty())
        reject("certificate and key require each other");
    if (settings_.user.empty() != settings_.password_file.empty())
        reject("user and password-file require each other");
    expiry_.reset(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!expiry_.valid())
        throw system_failure("cannot create a timer");
}

etcd_arbiter::key_state etcd_arbiter::fetch_key(
        etcd_client &with, const char *name, const replica::deadline &until) const
{
    const json response = with.call("/v3/kv/range", {{"key", key(name)}}, until);
    if (!response.contains("kvs"))
        return {};
    const json &found = response.at("kvs").at(0);
    return {found.at("mod_revision"), from_base64(found.value("value", ""))};
}

// Sets the expiry of the right: the lease time after the request was sent, minus the margin.
void etcd_arbiter::set_valid_from(std::int64_t requested_at_ms)
{
    const std::int64_t end = requested_at_ms + std::int64_t{ttl_s_} * 10 * (100 - margin_percent);
    valid_until_ms_ = end;
    itimerspec at{};
    at.it_value.tv_sec = end / 1000;
    at.it_value.tv_nsec = end % 1000 * 1'000'000;
    timerfd_settime(expiry_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
}

void etcd_arbiter::grant(const replica::deadline &until)
{
    const json response = client_->call("/v3/lease/grant", {{"TTL", ttl_s_}}, until);
    lease_ = response.at("ID");
}

void etcd_arbiter::reject_busy(const key_state &writer) const
{
    if (writer.revision != "0")
        throw failure(RPMA_MIRROR_E_BUSY, "set leased to writer " + writer.value + ": expires about " +
                                                  std::to_string(ttl_s_) +
                                                  " s after it stops (or run rpma-mirror fence)");
}

// Tries to acquire the right in one transaction. Returns false if another client changed a key.
bool etcd_arbiter::try_acquire(
        const promise &requested, bool seize, record &newest_record, promise &granted, const replica::deadline &until)
{
    const key_state writer = fetch_key(*client_, "writer", until), newest = fetch_key(*client_, "record", until),
                    highest = fetch_key(*client_, "epoch", until);
    // The response to a transaction of this writer can have been lost.
    if (!seize && writer.value != std::to_string(requested.writer))
        reject_busy(writer);
    newest_record = read_record(newest.value);
    granted = requested;
    const std::uint64_t last = highest.value.empty() ? 0 : json::parse(highest.value).get<std::uint64_t>();
    granted.epoch = std::max({requested.epoch, newest_record.epoch + 1, last + 1});
    const json response = client_->call("/v3/kv/txn",
            {{"compare", {is_at(key("writer"), writer.revision), is_at(key("record"), newest.revision),
                                 is_at(key("epoch"), highest.revision)}},
                    {"success", {put(key("writer"), std::to_string(granted.writer), lease_),
                                        put(key("epoch"), std::to_string(granted.epoch))}}},
            until);
    if (!succeeded(response))
        return false;
    writer_revision_ = response.at("header").at("revision");
    return true;
}

void etcd_arbiter::connect(const replica::set_uuid &set)
{
    constexpr const char *digits = "0123456789abcdef";
    key_prefix_ = prefix_;
    for (const std::byte b : set)
        key_prefix_ += {digits[std::to_integer<unsigned>(b) >> 4], digits[std::to_integer<unsigned>(b) & 15]};
    key_prefix_ += '/';
    client_ = std::make_unique<etcd_client>(settings_);
    renewing_ = std::make_unique<etcd_client>(settings_);
}

etcd_arbiter::record etcd_arbiter::newest(const replica::set_uuid &set, bool seize, const replica::deadline &until)
{
    connect(set);
    return understood([&] {
        if (!seize)
            reject_busy(fetch_key(*client_, "writer", until));
        return read_record(fetch_key(*client_, "record", until).value);
    });
}

etcd_arbiter::promise etcd_arbiter::acquire(
        const promise &requested, bool seize, record &newest_record, const replica::deadline &until)
{
    return understood([&] {
        promise granted;
        const std::int64_t requested_at = replica::boot_time_ms();
        grant(until);
        while (!try_acquire(requested, seize, newest_record, granted, until))
            if (until.passed())
                throw failure(RPMA_MIRROR_E_ARBITER, "etcd: transaction conflict: retry limit exceeded");
        set_valid_from(requested_at);
        return granted;
    });
}

// A lost response does not matter: only the writer with the right can change the record.
void etcd_arbiter::commit(const record &next, const replica::deadline &until)
{
    const bool done = understood([&] {
        return succeeded(client_->call("/v3/kv/txn",
                {{"compare", {is_at(key("writer"), writer_revision_)}},
                        {"success", {put(key("record"), write_record(next).dump())}}},
                until));
    });
    if (done)
        return;
    if (understood([&] { return fetch_key(*client_, "writer", until); }).revision == "0")
        throw failure(RPMA_MIRROR_E_ARBITER, "etcd: lease expired");
    throw failure(RPMA_MIRROR_E_FENCED, "etcd: another writer owns the set");
}

void etcd_arbiter::renew(const replica::deadline &until)
{
    const std::int64_t requested_at = replica::boot_time_ms();
    understood([&] {
        const json response = renewing_->call("/v3/lease/keepalive", {{"ID", lease_}}, until);
        if (response.at("result").value("TTL", "0") == "0")
            throw failure(RPMA_MIRROR_E_ARBITER, "etcd: lease expired");
        const key_state writer = fetch_key(*renewing_, "writer", until);
        if (writer.revision != writer_revision_)
            throw failure(writer.revision == "0" ? RPMA_MIRROR_E_ARBITER : RPMA_MIRROR_E_FENCED,
                    "etcd: another writer owns the set");
    });
    set_valid_from(requested_at);
}

// Without a response the lease expires automatically, and the caller has waited already.
void etcd_arbiter::release(const replica::deadline &until) noexcept
{
    if (lease_.empty() || !client_->responds())
        return;
    try {
        client_->call("/v3/lease/revoke", {{"ID", lease_}}, until);
    } catch (const std::exception &) {
        // The lease expires automatically.
    }
    lease_.clear();
}

} // namespace mirror

// Entry point of this module, which librpma_mirror loads by name.
extern "C" [[gnu::visibility("default")]] mirror::arbiter *rpma_mirror_etcd_arbiter(const std::string *words)
{
    return new mirror::etcd_arbiter(*words);
}
