/* What a program in the sandbox is told when its connection does not come about, in the words of
 * its protocol, see connection.h. Every word is ours or the configuration's but the host's name,
 * which was escaped. */
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "connection.h"
#include "socks.h"

#define ANSWER_MAX 2048

static void answer_socks(struct connection *connection, enum socks_reply reply)
{
    uint8_t data[SOCKS_REPLY_SIZE];

    socks_reply_write(reply, data);
    connection_answer(connection, (const char *)data, sizeof(data));
}

static void answer_http(struct connection *connection, int status, const char *reason,
                        const char *sentence)
{
    char text[ANSWER_MAX];

    int n = snprintf(text, sizeof(text),
                     "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                     "Content-Length: %zu\r\nConnection: close\r\n\r\nsbxctl: %s\n",
                     status, reason, strlen(sentence) + strlen("sbxctl: \n"), sentence);
    connection_answer(connection, text, n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

static void answer(struct connection *connection, int status, const char *reason,
                   enum socks_reply reply, const char *sentence)
{
    if (connection->record.service == EGRESS_SERVICE_SOCKS5)
        answer_socks(connection, reply);
    else
        answer_http(connection, status, reason, sentence);
}

/* What was connected to stays that, whatever happened then. */
static void conclude(struct connection *connection, enum egress_verdict verdict, const char *rule)
{
    if (connection->record.verdict != EGRESS_ALLOWED)
        connection->record.verdict = verdict;
    snprintf(connection->record.rule, sizeof(connection->record.rule), "%s", rule);
}

void answer_malformed(struct connection *connection, const char *why)
{
    char sentence[256];

    snprintf(sentence, sizeof(sentence), "malformed request: %s.", why);
    conclude(connection, EGRESS_FAILED, "malformed request");
    answer_http(connection, 400, "Malformed request", sentence);
}

void answer_command(struct connection *connection, int error)
{
    conclude(connection, EGRESS_FAILED, "malformed request");
    if (error == -EOPNOTSUPP)
        conclude(connection, EGRESS_FAILED, "SOCKS command other than CONNECT");
    answer_socks(connection, error == -EOPNOTSUPP     ? SOCKS_COMMAND_NOT_SUPPORTED
                             : error == -EAFNOSUPPORT ? SOCKS_ADDRESS_NOT_SUPPORTED
                                                      : SOCKS_FAILURE);
}

/* The sentence about a refusal. */
static void tell(struct connection *connection, const struct refusal *refusal, int status,
                 enum socks_reply reply)
{
    char sentence[EGRESS_NAME_MAX + EGRESS_RULE_MAX + 256], reason[EGRESS_RULE_MAX + 32];

    snprintf(sentence, sizeof(sentence), "%s port %u was refused by %s. %s",
             connection->record.name, connection->record.port, refusal->rule, refusal->advice);
    snprintf(reason, sizeof(reason), "Refused by %s", refusal->rule);
    answer(connection, status, reason, reply, sentence);
}

void answer_refused(struct connection *connection, const struct refusal *refusal)
{
    conclude(connection, EGRESS_REFUSED, refusal->rule);
    tell(connection, refusal, 403, SOCKS_NOT_ALLOWED);
}

void answer_excess(struct connection *connection, const struct refusal *refusal)
{
    conclude(connection, EGRESS_REFUSED, refusal->rule);
    tell(connection, refusal, 503, SOCKS_FAILURE);
}

/* What can go wrong outside, and how each protocol says it. */
static const struct {
    int error;
    int status;
    enum socks_reply reply;
    const char *words;
} failures[] = {
    { ENOENT, 502, SOCKS_HOST_UNREACHABLE, "there is no such name" },
    { EHOSTUNREACH, 502, SOCKS_HOST_UNREACHABLE, "it cannot be reached" },
    { ENETUNREACH, 502, SOCKS_HOST_UNREACHABLE, "it cannot be reached" },
    /* No address of ours to go there from: IPv6, usually. */
    { EADDRNOTAVAIL, 502, SOCKS_HOST_UNREACHABLE, "it cannot be reached" },
    { EREMOTEIO, 502, SOCKS_HOST_UNREACHABLE, "no name server could tell its address" },
    { ECONNREFUSED, 502, SOCKS_CONNECTION_REFUSED, "it refused the connection" },
    { ETIMEDOUT, 504, SOCKS_TTL_EXPIRED, "it did not answer in time" },
    { ETIME, 504, SOCKS_HOST_UNREACHABLE, "no name server answered in time" },
    { EBADMSG, 502, SOCKS_FAILURE, "its response is malformed" },
    { ENODATA, 502, SOCKS_FAILURE, "it closed the connection without a response" },
};

void answer_failed(struct connection *connection, int error)
{
    const char *words = strerrordesc_np(-error);
    enum socks_reply reply = SOCKS_FAILURE;
    int status = 502;
    char sentence[EGRESS_NAME_MAX + EGRESS_RULE_MAX + 32];

    for (size_t i = 0; i < ELEMENTS(failures); i++)
        if (failures[i].error == -error) {
            words = failures[i].words;
            status = failures[i].status;
            reply = failures[i].reply;
        }
    conclude(connection, EGRESS_FAILED, words ? words : "unknown");
    snprintf(sentence, sizeof(sentence), "%s port %u: %s.", connection->record.name,
             connection->record.port, connection->record.rule);
    answer(connection, status, status == 504 ? "Gateway Timeout" : "Bad Gateway", reply, sentence);
}
