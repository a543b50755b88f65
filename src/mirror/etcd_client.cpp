// SPDX-License-Identifier: BSD-3-Clause
#include "etcd_client.hpp"

#include <algorithm>
#include <cstring>
#include <curl/curl.h>
#include <mutex>
#include <netinet/in.h>
#include <poll.h>
#include <resolv.h>

#include "base/text_file.hpp"
#include "failure.hpp"

namespace mirror
{

namespace
{

constexpr long max_timeout_ms = 3'600'000;

std::size_t append(const char *data, std::size_t size, std::size_t count, void *to) noexcept
{
    try {
        static_cast<std::string *>(to)->append(data, size * count);
        return size * count;
    } catch (const std::exception &) {
        return 0;
    }
}

// Called by curl at least once a second. Ends the request if the descriptor of its deadline is readable.
int check_interrupt(void *until, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept
{
    pollfd poller{static_cast<const replica::deadline *>(until)->interrupt_fd(), POLLIN, 0};
    return poll(&poller, 1, 0) > 0 ? 1 : 0;
}

struct list_deleter {
    void operator()(curl_slist *list) const { curl_slist_free_all(list); }
};

// Reads a password from the first line of a file that only its owner may access.
std::string read_password(const std::string &path)
{
    const std::string name = "password file " + path + ": ";
    try {
        std::string text = replica::read_text_file(path, replica::readable_by::owner);
        std::string password = text.substr(0, text.find('\n'));
        explicit_bzero(text.data(), text.size());
        if (password.empty())
            throw replica::file_error(EBADMSG, "empty");
        return password;
    } catch (const replica::file_error &error) {
        throw failure(RPMA_MIRROR_E_SYSTEM, name + error.what(), error.os_errno());
    }
}

const unsigned char *bytes_of(const std::string &text)
{
    return reinterpret_cast<const unsigned char *>(text.data());
}

} // namespace

std::string to_base64(const std::string &bytes)
{
    std::string text(bytes.size() * 4 / 3 + 8, '\0');
    text.resize(static_cast<std::size_t>(b64_ntop(bytes_of(bytes), bytes.size(), text.data(), text.size())));
    return text;
}

std::string from_base64(const std::string &text)
{
    std::string bytes(text.size() + 1, '\0');
    const int size = b64_pton(text.c_str(), reinterpret_cast<unsigned char *>(bytes.data()), bytes.size());
    if (size < 0)
        throw failure(RPMA_MIRROR_E_ARBITER, "etcd: invalid response");
    bytes.resize(static_cast<std::size_t>(size));
    return bytes;
}

void etcd_client::closer::operator()(CURL *handle) const
{
    curl_easy_cleanup(handle);
}

etcd_client::etcd_client(const etcd_settings &of) : settings_(of)
{
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
    handle_.reset(curl_easy_init());
    if (!handle_)
        throw std::bad_alloc();
}

// Sends one request to one endpoint. Returns false with the reason in problem_ if another endpoint may be tried.
bool etcd_client::post(
        const std::string &url, const std::string &request, replica::deadline until, nlohmann::json &response)
{
    const int left = until.left_ms();
    CURL *const c = handle_.get();
    std::string text;
    char reason[CURL_ERROR_SIZE] = "";
    curl_easy_reset(c);
    std::unique_ptr<curl_slist, list_deleter> headers(curl_slist_append(nullptr, "Content-Type: application/json"));
    if (!token_.empty())
        headers.reset(curl_slist_append(headers.release(), ("Authorization: " + token_).c_str()));
    curl_easy_setopt(c, CURLOPT_URL, url.c_str());
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_PROXY, ""); // ignores proxy variables of the environment
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers.get());
    curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, static_cast<long>(request.size()));
    curl_easy_setopt(c, CURLOPT_POSTFIELDS, request.data());
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, append);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, &text);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, reason);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, left < 0 ? max_timeout_ms : std::max(left, 1));
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, check_interrupt);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, &until);
    curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L); // at the timeout, do not wait for the thread that resolves the name
    if (!settings_.ca.empty())
        curl_easy_setopt(c, CURLOPT_CAINFO, settings_.ca.c_str());
    if (!settings_.certificate.empty()) {
        curl_easy_setopt(c, CURLOPT_SSLCERT, settings_.certificate.c_str());
        curl_easy_setopt(c, CURLOPT_SSLKEY, settings_.key.c_str());
    }
    const CURLcode code = curl_easy_perform(c);
    responds_ = code == CURLE_OK;
    if (code != CURLE_OK) {
        error_ = url + ": " + (reason[0] != '\0' ? reason : curl_easy_strerror(code));
        return false;
    }
    response = nlohmann::json::parse(text, nullptr, false);
    long status = 0;
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    if (status == 200 && response.is_object())
        return true;
    logged_out_ = status == 401;
    error_ = url + ": " +
             (response.is_object() && response.contains("error") ? response["error"].dump()
                                                                 : "HTTP " + std::to_string(status));
    return false;
}

void etcd_client::log_in(const replica::deadline &until)
{
    token_.clear();
    token_ = call_once("/v3/auth/authenticate",
            {{"name", settings_.user}, {"password", read_password(settings_.password_file)}}, until)
                     .value("token", "");
}

// Logs in again if etcd rejects the token, which can expire or be lost by a restart of etcd.
nlohmann::json etcd_client::call(const std::string &path, const nlohmann::json &request, const replica::deadline &until)
{
    if (settings_.user.empty())
        return call_once(path, request, until);
    if (token_.empty())
        log_in(until);
    try {
        return call_once(path, request, until);
    } catch (const failure &) {
        if (!logged_out_)
            throw;
    }
    log_in(until);
    return call_once(path, request, until);
}

nlohmann::json etcd_client::call_once(
        const std::string &path, const nlohmann::json &request, const replica::deadline &until)
{
    logged_out_ = false;
    const std::string body = request.dump();
    const std::size_t count = settings_.endpoints.size();
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = (last_good_ + i) % count;
        nlohmann::json response;
        // Limits the time of each endpoint, so that an unresponsive one leaves time for the others.
        if (post(settings_.endpoints[at] + path, body, until.share(static_cast<int>(count - i)), response)) {
            last_good_ = at;
            return response;
        }
    }
    throw failure(RPMA_MIRROR_E_ARBITER, "etcd: request failed: " + error_);
}

} // namespace mirror
