/* What engines need that speak HTTP by libcurl. Called by their http.c. */
#pragma once

#include <curl/curl.h>

/* One of a chain of options for a handle @curl, of which the first failure is remembered in @code.
 */
#define CURL_SET(option, value) \
    (code = code != CURLE_OK ? code : curl_easy_setopt(curl, CURLOPT_##option, value))

/* What went wrong with a request. Returns 0 or a negative errno: -EHOSTUNREACH, -ECONNREFUSED,
 * -EKEYREJECTED and -EPROTO mean that nothing was sent; -ETIMEDOUT; -ENOMEM; -ECONNRESET if the
 * connection broke; -EBADMSG for all else. */
int curl_error(CURLcode code);
