// SPDX-License-Identifier: BSD-3-Clause
#include "fault/parse.hpp"
#include "base/config.hpp"

#include <algorithm>
#include <cstdlib>

namespace softrdma::fault
{

namespace
{

template<typename Value>
struct keyword {
    std::string_view text;
    Value value;
};

constexpr keyword<action> actions[] = {{"status", action::status}, {"drop", action::drop}, {"delay", action::delay},
        {"rnr", action::rnr}, {"disconnect", action::disconnect}, {"late", action::late},
        {"duplicate", action::duplicate}, {"reject", action::reject}, {"unreachable", action::unreachable},
        {"overflow", action::overflow}};

constexpr keyword<ibv_wc_status> statuses[] = {{"loc_len", IBV_WC_LOC_LEN_ERR}, {"loc_qp_op", IBV_WC_LOC_QP_OP_ERR},
        {"loc_prot", IBV_WC_LOC_PROT_ERR}, {"rem_inv_req", IBV_WC_REM_INV_REQ_ERR},
        {"rem_access", IBV_WC_REM_ACCESS_ERR}, {"rem_op", IBV_WC_REM_OP_ERR}, {"retry_exc", IBV_WC_RETRY_EXC_ERR},
        {"rnr_retry_exc", IBV_WC_RNR_RETRY_EXC_ERR}, {"fatal", IBV_WC_FATAL_ERR}};

constexpr unsigned bit(int opcode) noexcept
{
    return 1u << opcode;
}

constexpr keyword<unsigned> operations[] = {{"write", bit(IBV_WR_RDMA_WRITE)},
        {"write_imm", bit(IBV_WR_RDMA_WRITE_WITH_IMM)}, {"send", bit(IBV_WR_SEND)},
        {"send_imm", bit(IBV_WR_SEND_WITH_IMM)}, {"read", bit(IBV_WR_RDMA_READ)},
        {"compare_swap", bit(IBV_WR_ATOMIC_CMP_AND_SWP)}, {"fetch_add", bit(IBV_WR_ATOMIC_FETCH_AND_ADD)},
        {"flush", bit(14)}, {"atomic_write", bit(15)}};

template<typename Table>
auto find(const Table &table, std::string_view text)
{
    return std::find_if(std::begin(table), std::end(table), [&](const auto &entry) { return entry.text == text; });
}

// Removes the text before the separator, and the separator. Returns that text.
std::string_view take_until(std::string_view &text, char separator)
{
    const std::string_view taken = text.substr(0, text.find(separator));
    text.remove_prefix(std::min(text.size(), taken.size() + 1));
    return taken;
}

std::string_view trimmed(std::string_view text)
{
    const auto first = text.find_first_not_of(" \t\n");
    return first == text.npos ? std::string_view{} : text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

bool to_probability(std::string_view text, double &value)
{
    const std::string copy(text);
    char *end = nullptr;
    value = strtod(copy.c_str(), &end);
    return !copy.empty() && *end == '\0' && value >= 0 && value <= 1;
}

std::string in_quotes(std::string_view text)
{
    return "'" + std::string(text) + "'";
}

bool set_action(rule &r, std::string_view text, std::string &reason)
{
    const std::string_view name = take_until(text, '=');
    const auto found = find(actions, name);
    if (found == std::end(actions)) {
        reason = "unknown action " + in_quotes(name) +
                 " (use status, drop, delay, rnr, disconnect, late, duplicate, reject, unreachable or overflow)";
        return false;
    }
    r.result.kind = found->value;
    if (found->value == action::status) {
        const auto status = find(statuses, text);
        if (status == std::end(statuses)) {
            reason = "unknown status " + in_quotes(text) +
                     " (use loc_len, loc_qp_op, loc_prot, rem_inv_req, rem_access, rem_op, retry_exc, rnr_retry_exc or "
                     "fatal)";
            return false;
        }
        r.result.status = status->value;
        return true;
    }
    constexpr std::uint64_t hour_us = 3600ull * 1000 * 1000;
    const bool has_value = found->value == action::delay || found->value == action::late;
    std::uint64_t microseconds = 0;
    if (has_value ? !config::parse_number(text, microseconds) || microseconds > hour_us : !text.empty()) {
        reason = has_value ? std::string(name) + ": invalid value (use microseconds, at most one hour)"
                           : std::string(name) + ": value not allowed";
        return false;
    }
    r.result.delay = std::chrono::microseconds(microseconds);
    if (r.result.kind == action::late)
        r.operations = bit(IBV_WR_RDMA_READ);
    return true;
}

bool set_condition(rule &r, std::string_view text, std::string &reason)
{
    const std::string_view key = take_until(text, '=');
    std::uint64_t number = 0;
    const bool positive = config::parse_number(text, number) && number > 0;
    const auto operation = find(operations, text);
    if (key == "op" && operation != std::end(operations))
        r.operations &= operation->value;
    else if (key == "qp" && positive && number < 1u << 24)
        r.qpn = static_cast<std::uint32_t>(number);
    else if (key == "nth" && positive)
        r.nth = number;
    else if (key == "every" && positive)
        r.every = number;
    else if (key == "count" && positive)
        r.count = number;
    else if (key != "p" || !to_probability(text, r.probability)) {
        reason = "unknown condition " + in_quotes(std::string(key) + "=" + std::string(text)) +
                 " (use op=NAME, qp=N, nth=N, every=N, count=N or p=0.5)";
        return false;
    }
    if (r.operations != 0)
        return true;
    reason = "late: only allowed with op=read";
    return false;
}

} // namespace

std::optional<parsed> parse(std::string_view text, std::string &reason)
{
    parsed result;
    while (!text.empty()) {
        std::string_view item = trimmed(take_until(text, ';'));
        if (item.empty())
            continue;
        if (item.starts_with("seed=")) {
            std::uint64_t seed = 0;
            if (!config::parse_number(item.substr(5), seed)) {
                reason = "seed: invalid value (use a number)";
                return std::nullopt;
            }
            result.seed = seed;
            continue;
        }
        rule r;
        if (!set_action(r, take_until(item, ':'), reason))
            return std::nullopt;
        while (!item.empty()) {
            if (!set_condition(r, take_until(item, ','), reason))
                return std::nullopt;
        }
        result.rules.push_back(r);
    }
    return result;
}

} // namespace softrdma::fault
