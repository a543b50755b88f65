// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/qp_object.hpp"
#include "verbs/wr_op_info.hpp"

#include <algorithm>
#include <cerrno>
#include <span>

namespace softrdma
{

namespace
{

struct transition {
    ibv_qp_state from;
    ibv_qp_state to;
    int required;
    int optional;
};

constexpr int location = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int while_sending =
        IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE;

constexpr transition rc_transitions[] = {
        {IBV_QPS_RESET, IBV_QPS_INIT, location, 0},
        {IBV_QPS_INIT, IBV_QPS_INIT, 0, location},
        {IBV_QPS_INIT, IBV_QPS_RTR,
                IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                        IBV_QP_MIN_RNR_TIMER,
                IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
        {IBV_QPS_RTR, IBV_QPS_RTS,
                IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                while_sending},
        {IBV_QPS_RTS, IBV_QPS_RTS, 0, while_sending},
        {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
        {IBV_QPS_SQD, IBV_QPS_RTS, 0, while_sending},
        {IBV_QPS_SQD, IBV_QPS_SQD, 0,
                location | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
};

constexpr int datagram_location = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
constexpr int while_sending_datagrams = IBV_QP_CUR_STATE | IBV_QP_QKEY;

constexpr transition ud_transitions[] = {
        {IBV_QPS_RESET, IBV_QPS_INIT, datagram_location, 0},
        {IBV_QPS_INIT, IBV_QPS_INIT, 0, datagram_location},
        {IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
        {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, while_sending_datagrams},
        {IBV_QPS_RTS, IBV_QPS_RTS, 0, while_sending_datagrams},
        {IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
        {IBV_QPS_SQD, IBV_QPS_RTS, 0, while_sending_datagrams},
        {IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
        {IBV_QPS_SQE, IBV_QPS_RTS, 0, while_sending_datagrams},
};

bool may_change(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask) noexcept
{
    const auto fits = [mask](int required, int optional) {
        return (mask & required) == required && (mask & ~(required | optional | IBV_QP_STATE)) == 0;
    };
    // RESET is reachable from every state, and ERR from every state except RESET.
    if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
        return fits(0, 0);
    const auto all = type == IBV_QPT_UD ? std::span<const transition>(ud_transitions) : rc_transitions;
    const auto found =
            std::find_if(all.begin(), all.end(), [&](const transition &t) { return t.from == from && t.to == to; });
    return found != all.end() && fits(found->required, found->optional);
}

bool in_range(const ibv_qp_attr &attr, int mask) noexcept
{
    constexpr int five_bits = 31;
    constexpr int three_bits = 7;
    const auto fits = [mask](int bit, auto value, auto min, auto max) {
        return (mask & bit) == 0 || (value >= min && value <= max);
    };
    return fits(IBV_QP_PORT, attr.port_num, 1, 1) && fits(IBV_QP_PKEY_INDEX, attr.pkey_index, 0, 0) &&
           fits(IBV_QP_PATH_MTU, attr.path_mtu, IBV_MTU_256, IBV_MTU_4096) &&
           fits(IBV_QP_MAX_QP_RD_ATOMIC, attr.max_rd_atomic, 0, limits::max_reads) &&
           fits(IBV_QP_MAX_DEST_RD_ATOMIC, attr.max_dest_rd_atomic, 0, limits::max_reads) &&
           fits(IBV_QP_MIN_RNR_TIMER, attr.min_rnr_timer, 0, five_bits) &&
           fits(IBV_QP_TIMEOUT, attr.timeout, 0, five_bits) && fits(IBV_QP_RETRY_CNT, attr.retry_cnt, 0, three_bits) &&
           fits(IBV_QP_RNR_RETRY, attr.rnr_retry, 0, three_bits);
}

} // namespace

bool are_known(const ibv_qp_attr &attr, int mask) noexcept
{
    return ((mask & IBV_QP_STATE) == 0 || number_of(attr.qp_state) <= IBV_QPS_ERR) &&
           ((mask & IBV_QP_CUR_STATE) == 0 || number_of(attr.cur_qp_state) <= IBV_QPS_ERR) &&
           ((mask & IBV_QP_PATH_MTU) == 0 || number_of(attr.path_mtu) <= IBV_MTU_4096);
}

bool is_type(const ibv_qp_type &type) noexcept
{
    return number_of(type) <= IBV_QPT_DRIVER;
}

int check_change(ibv_qp_type type, const ibv_qp_attr &current, const ibv_qp_attr &requested, int mask) noexcept
{
    const ibv_qp_state from = current.qp_state;
    const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? requested.qp_state : from;
    if ((mask & IBV_QP_CUR_STATE) != 0 && requested.cur_qp_state != from)
        return EINVAL;
    return may_change(type, from, to, mask) && in_range(requested, mask) ? 0 : EINVAL;
}

void take_attributes(ibv_qp_attr &current, const ibv_qp_attr &requested, int mask) noexcept
{
    const auto take = [&](int bit, auto member) {
        if ((mask & bit) != 0)
            current.*member = requested.*member;
    };
    take(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
    take(IBV_QP_PKEY_INDEX, &ibv_qp_attr::pkey_index);
    take(IBV_QP_PORT, &ibv_qp_attr::port_num);
    take(IBV_QP_QKEY, &ibv_qp_attr::qkey);
    take(IBV_QP_AV, &ibv_qp_attr::ah_attr);
    take(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
    take(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
    take(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
    take(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
    take(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
    take(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
    take(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
    take(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
    take(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
    take(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
}

} // namespace softrdma
