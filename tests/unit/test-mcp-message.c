/* Messages of an MCP client: what each line is, and whose it seems to be if it is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "client/mcp-message.h"

#define CALL "\"jsonrpc\":\"2.0\",\"method\":\"m\""

static struct mcp_message parse(const char *line)
{
    struct mcp_message message;

    mcp_message_parse(line, strlen(line), &message);
    return message;
}

/* The id as JSON, or "none". */
static void assert_id(const struct mcp_message *message, const char *expected)
{
    assert_string_equal(message->id ? json_text(message->id, NULL) : "none", expected);
}

static void each_line_is_of_a_kind(void **state)
{
    static const struct {
        const char *line;
        enum mcp_kind kind;
        enum mcp_error error;
        const char *id;
    } cases[] = {
        { "{" CALL ",\"id\":1}", MCP_REQUEST, 0, "1" },
        { " {" CALL ",\"id\":\"a\",\"params\":{}} ", MCP_REQUEST, 0, "\"a\"" },
        { "{" CALL ",\"id\":-9223372036854775808}", MCP_REQUEST, 0, "-9223372036854775808" },
        { "{" CALL ",\"id\":\"\"}", MCP_REQUEST, 0, "\"\"" },
        { "{" CALL "}", MCP_NOTIFICATION, 0, "none" },
        { "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", MCP_RESPONSE, 0, "1" },
        { "{\"jsonrpc\":\"2.0\",\"error\":{}}", MCP_RESPONSE, 0, "none" },
        { "[]", MCP_BATCH, 0, "none" },
        { "[{" CALL "}]", MCP_BATCH, 0, "none" },
        { "{" CALL ",\"id\":null}", MCP_BAD, MCP_ERROR_REQUEST, "none" },
        { "{" CALL ",\"id\":1.5}", MCP_BAD, MCP_ERROR_REQUEST, "none" },
        { "{" CALL ",\"id\":true}", MCP_BAD, MCP_ERROR_REQUEST, "none" },
        { "{" CALL ",\"id\":{}}", MCP_BAD, MCP_ERROR_REQUEST, "none" },
        { "{" CALL ",\"id\":1,\"params\":[]}", MCP_BAD, MCP_ERROR_PARAMETERS, "1" },
        { "{\"jsonrpc\":\"1.0\",\"method\":\"m\",\"id\":1}", MCP_BAD, MCP_ERROR_REQUEST, "1" },
        { "{\"method\":\"m\",\"id\":1}", MCP_BAD, MCP_ERROR_REQUEST, "1" },
        { "{\"jsonrpc\":\"2.0\",\"method\":7,\"id\":1}", MCP_BAD, MCP_ERROR_REQUEST, "1" },
        { "{}", MCP_BAD, MCP_ERROR_REQUEST, "none" },
        { "1", MCP_BAD, MCP_ERROR_PARSE, "none" },
        { "{", MCP_BAD, MCP_ERROR_PARSE, "none" },
        { "\xff", MCP_BAD, MCP_ERROR_PARSE, "none" },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_(mcp_message_release) struct mcp_message message = parse(cases[i].line);
        assert_int_equal(message.kind, cases[i].kind);
        if (message.kind == MCP_BAD) {
            assert_int_equal(message.error, cases[i].error);
            assert_non_null(message.reason);
        }
        assert_id(&message, cases[i].id);
    }
}

/* A client that waits for an answer gets one, whatever else is wrong. */
static void line_that_is_no_json_may_have_an_id(void **state)
{
    static const char *const cases[][2] = {
        { "{" CALL ",\"id\":7,\"params\":{\"code\":\"\\u0000\"}}", "7" },
        { "{\"params\":{\"code\":\"\\ud800\"},\"id\":\"x\\\"y\"}", "\"x\\\"y\"" },
        { "{\"a\":1,\"a\":2,\"id\" : 8 }", "8" },
        { "{\"params\":{\"id\":1},\"x\":[\"id\",{\"id\":2}],\"a\":01,\"id\":3}", "3" },
        { "{\"x\":\"\\\"id\\\":4\",\"a\":01,\"id\":5}", "5" },
        { "{\"id\":1,\"id\":2}", "none" },
        { "{\"id\":{},\"a\":01}", "none" },
        { "{\"id\":1.5,\"a\":01}", "none" },
        { "{\"id\":6", "none" },
        { "\"id\":6,", "none" },
        { "}}}{\"id\":6,", "6" },
    };

    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_(mcp_message_release) struct mcp_message message = parse(cases[i][0]);
        assert_int_equal(message.kind, MCP_BAD);
        assert_int_equal(message.error, MCP_ERROR_PARSE);
        assert_id(&message, cases[i][1]);
    }
}

static void id_is_found_in_any_pieces(void **state)
{
    static const char line[] = "{\"a\":\"id\\\\\",\"id\":\"one\",\"b\":{\"id\":2}}";

    for (size_t i = 0; i <= strlen(line); i++) {
        struct mcp_id_finder finder = {};
        mcp_id_finder_feed(&finder, line, i);
        mcp_id_finder_feed(&finder, line + i, strlen(line) - i);
        _cleanup_json_ json_object *id = mcp_id_finder_id(&finder);
        assert_string_equal(json_object_get_string(id), "one");
    }
}

static void id_that_is_too_long_is_none(void **state)
{
    char line[2 * MCP_ID_MAX];
    struct mcp_id_finder finder = {};

    memset(line, 'x', sizeof(line));
    memcpy(line, "{\"id\":\"", 7);
    memcpy(line + sizeof(line) - 2, "\"}", 2);
    mcp_id_finder_feed(&finder, line, sizeof(line));
    assert_null(mcp_id_finder_id(&finder));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_is_of_a_kind),
        cmocka_unit_test(line_that_is_no_json_may_have_an_id),
        cmocka_unit_test(id_is_found_in_any_pieces),
        cmocka_unit_test(id_that_is_too_long_is_none),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
