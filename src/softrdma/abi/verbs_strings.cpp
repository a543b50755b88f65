// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <infiniband/verbs.h>

namespace
{

template<std::size_t N>
const char *pick(const std::array<const char *, N> &names, int index, const char *unknown)
{
    return index >= 0 && static_cast<std::size_t>(index) < N && names[static_cast<std::size_t>(index)] != nullptr
                   ? names[static_cast<std::size_t>(index)]
                   : unknown;
}

struct rate {
    ibv_rate code;
    int multiple; // multiple of 2.5 Gbit/s; 0 if not defined in the specification
    int mbps;
};

constexpr rate rates[] = {{IBV_RATE_2_5_GBPS, 1, 2500}, {IBV_RATE_5_GBPS, 2, 5000}, {IBV_RATE_10_GBPS, 4, 10000},
        {IBV_RATE_20_GBPS, 8, 20000}, {IBV_RATE_30_GBPS, 12, 30000}, {IBV_RATE_40_GBPS, 16, 40000},
        {IBV_RATE_60_GBPS, 24, 60000}, {IBV_RATE_80_GBPS, 32, 80000}, {IBV_RATE_120_GBPS, 48, 120000},
        {IBV_RATE_14_GBPS, 6, 14062}, {IBV_RATE_56_GBPS, 22, 56250}, {IBV_RATE_112_GBPS, 45, 112500},
        {IBV_RATE_168_GBPS, 67, 168750}, {IBV_RATE_25_GBPS, 10, 25781}, {IBV_RATE_100_GBPS, 41, 103125},
        {IBV_RATE_200_GBPS, 82, 206250}, {IBV_RATE_300_GBPS, 124, 309375}, {IBV_RATE_28_GBPS, 11, 28125},
        {IBV_RATE_50_GBPS, 20, 53125}, {IBV_RATE_400_GBPS, 160, 425000}, {IBV_RATE_600_GBPS, 240, 637500},
        {IBV_RATE_800_GBPS, 320, 850000}, {IBV_RATE_1200_GBPS, 480, 1275000}};

template<typename From, typename To>
To convert(From rate::*key, From value, To rate::*result, To unknown)
{
    for (const rate &r : rates) {
        if (r.*key == value)
            return r.*result;
    }
    return unknown;
}

} // namespace

extern "C" {

const char *ibv_wc_status_str(ibv_wc_status status)
{
    static constexpr std::array names = {"success", "local length error", "local QP operation error",
            "local EE context operation error", "local protection error", "Work Request Flushed Error",
            "memory management operation error", "bad response error", "local access error",
            "remote invalid request error", "remote access error", "remote operation error",
            "transport retry counter exceeded", "RNR retry counter exceeded", "local RDD violation error",
            "remote invalid RD request", "aborted error", "invalid EE context number", "invalid EE context state",
            "fatal error", "response timeout error", "general error", "TM error", "TM software rendezvous"};
    return pick(names, status, "unknown");
}

const char *ibv_event_type_str(ibv_event_type event)
{
    static constexpr std::array names = {"CQ error", "local work queue catastrophic error",
            "invalid request local work queue error", "local access violation work queue error",
            "communication established", "send queue drained", "path migrated", "path migration request error",
            "local catastrophic error", "port active", "port error", "LID change", "P_Key change", "SM change",
            "SRQ catastrophic error", "SRQ limit reached", "last WQE reached", "client reregistration",
            "GID table change", "WQ fatal"};
    return pick(names, event, "unknown");
}

const char *ibv_node_type_str(ibv_node_type type)
{
    static constexpr std::array<const char *, 8> names = {nullptr, "InfiniBand channel adapter", "InfiniBand switch",
            "InfiniBand router", "iWARP NIC", "usNIC", "usNIC UDP", "unspecified"};
    return pick(names, type, "unknown");
}

const char *ibv_port_state_str(ibv_port_state state)
{
    static constexpr std::array names = {"no state change (NOP)", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
    return pick(names, state, "invalid state");
}

int ibv_rate_to_mult(ibv_rate code)
{
    return convert(&rate::code, code, &rate::multiple, -1);
}

ibv_rate mult_to_ibv_rate(int multiple)
{
    return convert(&rate::multiple, multiple, &rate::code, IBV_RATE_MAX);
}

int ibv_rate_to_mbps(ibv_rate code)
{
    return convert(&rate::code, code, &rate::mbps, -1);
}

ibv_rate mbps_to_ibv_rate(int mbps)
{
    return convert(&rate::mbps, mbps, &rate::code, IBV_RATE_MAX);
}

} // extern "C"
