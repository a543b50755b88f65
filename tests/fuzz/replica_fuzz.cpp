// SPDX-License-Identifier: BSD-3-Clause
// The parsers of the messages between a remote replica and its client. An accepted message is encoded again and must be
// accepted again.
#include "control.hpp"
#include "lane_message.hpp"
#include "lane_proof.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>

using namespace replica;

template<class Message>
static void read_control(std::span<const std::byte> input)
{
    const auto message = std::make_unique<Message>();
    if (decode(input, *message) != decoded::good)
        return;
    const auto again = std::make_unique<Message>();
    const encoded_message once = encode(*message);
    if (decode(once.bytes(), *again) != decoded::good)
        abort();
    const encoded_message twice = encode(*again);
    if (!std::ranges::equal(once.bytes(), twice.bytes()))
        abort();
}

static void read_lane(std::span<const std::byte> input)
{
    std::byte wire[max_lane_request_size];
    lane_request request;
    if (decode(input, request) &&
            (encode(request, wire) != input.size() || !std::equal(input.begin(), input.end(), wire)))
        abort();
    lane_answer answered;
    if (decode(input, answered) &&
            (encode(answered, wire) != input.size() || !std::equal(input.begin(), input.end(), wire)))
        abort();
    std::uint32_t lane = 0;
    if (check_lane_proof(token{}, input, &lane) && input.size() < lane_proof_size)
        abort();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::span<const std::byte> input{reinterpret_cast<const std::byte *>(data), size};
    read_control<greeting>(input);
    read_control<request>(input);
    read_control<answer>(input);
    read_lane(input);
    if (size >= answer_header_size) {
        if (answer_size(input.first<answer_header_size>()) > max_message_size ||
                request_size(input.first<request_header_size>()) > max_message_size)
            abort();
    }
    return 0;
}
