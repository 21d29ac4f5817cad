/* How facts about a run's end become a status, a sentence and a hint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "broker/outcome.h"

static const struct limits limits = { .memory_bytes = 512 << 20,
                                      .cpu_percent = 100,
                                      .timeout_usec = 60000000 };
static const struct limits ceiling = { .memory_bytes = UINT64_C(2) << 30,
                                       .cpu_percent = 200,
                                       .timeout_usec = 300000000 };

static struct facts ended_well(void)
{
    return (struct facts){
        .limits = &limits,
        .defaults = &limits,
        .ceiling = &ceiling,
        .interpreter = "python3",
        .engine = "systemd",
        .have_exited = true,
        .exited = { .kind = LAUNCH_EXIT_CODE, .value = 0 },
        .have_ended = true,
        .ended = { .why = ENGINE_WHY_EXIT, .memory_peak_bytes = 500 << 20, .cpu_usec = 1500000 },
    };
}

static struct outcome decide(struct facts facts)
{
    struct outcome outcome;
    outcome_decide(&facts, &outcome);
    return outcome;
}

static void exit_status_0_is_success_without_a_hint(void **state)
{
    struct outcome outcome = decide(ended_well());

    assert_int_equal(outcome.status, RUN_SUCCEEDED);
    assert_true(outcome.have_exit_code);
    assert_int_equal(outcome.exit_code, 0);
    assert_string_equal(outcome.hint, "");
}

static void run_that_an_engine_lost_is_lost_in_its_own_words(void **state)
{
    struct facts facts = ended_well();
    facts.have_exited = false;
    facts.have_error = true;
    facts.error = (struct engine_error){ ENGINE_PHASE_LOST, "The cloud vanished." };
    struct outcome outcome = decide(facts);

    assert_int_equal(outcome.status, RUN_LOST);
    assert_string_equal(outcome.reason, "The cloud vanished.");
    assert_non_null(strstr(outcome.hint, "look at what was kept"));
    assert_false(outcome.have_exit_code);
}

static void program_that_an_engine_could_not_start_failed_with_its_sentence(void **state)
{
    struct facts facts = ended_well();
    facts.have_exited = false;
    facts.have_error = true;
    facts.error = (struct engine_error){ "start", "The upload was refused." };
    struct outcome outcome = decide(facts);

    assert_int_equal(outcome.status, RUN_FAILED);
    assert_string_equal(outcome.reason, "The program was not started: The upload was refused.");
    assert_int_equal(outcome.exit_code, 126);
}

static void other_exit_status_is_failure_and_is_named(void **state)
{
    struct facts facts = ended_well();
    facts.exited.value = 3;
    struct outcome outcome = decide(facts);

    assert_int_equal(outcome.status, RUN_FAILED);
    assert_int_equal(outcome.exit_code, 3);
    assert_non_null(strstr(outcome.reason, "exit status 3"));
}

static void sigkill_with_an_oom_kill_is_out_of_memory_with_limit_and_peak(void **state)
{
    struct facts facts = ended_well();
    facts.exited = (struct launch_exited){ .kind = LAUNCH_EXIT_SIGNAL, .value = SIGKILL };
    facts.ended.oom_kills = 1;
    struct outcome outcome = decide(facts);

    assert_int_equal(outcome.status, RUN_OUT_OF_MEMORY);
    assert_non_null(strstr(outcome.reason, "512 MiB"));
    assert_non_null(strstr(outcome.reason, "500 MiB"));
    assert_non_null(strstr(outcome.hint, "--memory 1024M"));
}

static void sigkill_without_an_oom_kill_is_not_memory(void **state)
{
    struct facts facts = ended_well();
    facts.exited = (struct launch_exited){ .kind = LAUNCH_EXIT_SIGNAL, .value = SIGKILL };
    struct outcome outcome = decide(facts);

    assert_int_equal(outcome.status, RUN_KILLED);
    assert_int_equal(outcome.signal, SIGKILL);
    assert_non_null(strstr(outcome.reason, "not for memory"));
}

static void oom_kill_of_a_child_is_mentioned_with_the_parents_status(void **state)
{
    struct facts facts = ended_well();
    facts.exited.value = 1;
    facts.ended.oom_kills = 1;
    struct outcome outcome = decide(facts);

    assert_int_equal(outcome.status, RUN_FAILED);
    assert_non_null(strstr(outcome.reason, "exit status 1"));
    assert_non_null(strstr(outcome.reason, "more memory than 512 MiB"));
}

static void our_clock_wins_over_what_the_program_said_afterwards(void **state)
{
    struct facts facts = ended_well();
    facts.timed_out = true;
    struct outcome outcome = decide(facts);

    assert_int_equal(outcome.status, RUN_TIMED_OUT);
    assert_non_null(strstr(outcome.reason, "60 s"));
    assert_non_null(strstr(outcome.reason, "1.5 s"));
    assert_string_equal(outcome.hint,
                        "Ask for more time with --timeout 120s, which needs an approval.");
}

static void more_time_than_a_fraction_of_a_second_is_a_second(void **state)
{
    struct limits short_limits = limits;
    struct facts facts = ended_well();

    short_limits.timeout_usec = 300000;
    facts.limits = &short_limits;
    facts.timed_out = true;
    assert_string_equal(decide(facts).hint, "Ask for more time with --timeout 1s.");
}

static void at_the_ceiling_no_hint_asks_for_more(void **state)
{
    struct facts facts = ended_well();
    facts.limits = &ceiling;
    facts.timed_out = true;
    assert_null(strstr(decide(facts).hint, "--timeout"));
    facts.timed_out = false;
    facts.ended.oom_kills = 1;
    facts.exited = (struct launch_exited){ .kind = LAUNCH_EXIT_SIGNAL, .value = SIGKILL };
    assert_null(strstr(decide(facts).hint, "--memory"));
}

static void missing_interpreter_is_named_and_has_status_127(void **state)
{
    struct facts facts = ended_well();
    facts.exited = (struct launch_exited){ .kind = LAUNCH_EXIT_EXEC, .value = ENOENT };
    struct outcome outcome = decide(facts);

    assert_int_equal(outcome.status, RUN_FAILED);
    assert_int_equal(outcome.exit_code, 127);
    assert_non_null(strstr(outcome.reason, "python3"));
}

static void silent_launcher_is_killed_and_silent_engine_is_lost(void **state)
{
    struct facts facts = ended_well();
    facts.have_exited = false;
    assert_int_equal(decide(facts).status, RUN_KILLED);
    facts.ended.oom_kills = 2;
    assert_int_equal(decide(facts).status, RUN_OUT_OF_MEMORY);
    facts.have_ended = false;
    struct outcome outcome = decide(facts);
    assert_int_equal(outcome.status, RUN_LOST);
    assert_non_null(strstr(outcome.reason, "'systemd'"));
    assert_non_null(strstr(outcome.hint, "sbxctl-engine-systemd"));
}

static void counters_that_an_engine_cannot_tell_are_no_facts(void **state)
{
    struct facts facts = ended_well();
    facts.ended = (struct engine_ended){ .why = ENGINE_WHY_EXIT,
                                         .oom_kills = UINT64_MAX,
                                         .cpu_usec = UINT64_MAX,
                                         .memory_peak_bytes = UINT64_MAX,
                                         .task_refusals = UINT64_MAX,
                                         .leftovers = UINT64_MAX,
                                         .cleaned = true };
    assert_string_equal(decide(facts).reason, "The program ended well.");
    assert_int_equal(facts_cpu_usec(&facts), 0); /* the launcher's word then */
    facts.timed_out = true;
    facts.have_exited = false;
    assert_null(strstr(decide(facts).reason, "CPU"));
}

static void leftovers_are_mentioned(void **state)
{
    struct facts facts = ended_well();
    facts.exited.leftovers = 2;
    assert_non_null(strstr(decide(facts).reason, "2 processes that it left behind"));
}

static void a_gone_caller_is_told_apart_from_a_cancelled_run(void **state)
{
    struct facts facts = ended_well();
    facts.cancelled = true;
    assert_string_equal(decide(facts).reason, "The run was cancelled.");
    facts.caller_gone = true;
    assert_int_equal(decide(facts).status, RUN_CANCELLED);
    assert_non_null(strstr(decide(facts).reason, "caller went away"));
}

static void files_are_told_apart_in_an_out_of_memory(void **state)
{
    struct facts facts = ended_well();
    facts.exited = (struct launch_exited){ .kind = LAUNCH_EXIT_SIGNAL,
                                           .value = SIGKILL,
                                           .file_bytes = 200 << 20 };
    facts.ended.oom_kills = 1;
    assert_non_null(strstr(decide(facts).reason, "200 MiB of it were files"));
    facts.exited.file_bytes = 1 << 20;
    assert_null(strstr(decide(facts).reason, "files"));
    facts.have_exited = false;
    facts.workspace_used = 100 << 20;
    assert_non_null(strstr(decide(facts).reason, "100 MiB of it were files"));
}

static void refused_tasks_are_mentioned_unless_it_did_not_matter(void **state)
{
    struct facts facts = ended_well();
    facts.tasks = 256;
    facts.ended.task_refusals = 12;
    assert_null(strstr(decide(facts).reason, "256"));
    facts.exited.value = 1;
    assert_non_null(strstr(decide(facts).reason, "more than the 256 processes and threads"));
}

static void full_workspace_and_files_in_tmp_give_hints(void **state)
{
    struct facts facts = ended_well();
    facts.workspace_bytes = 256 << 20;
    facts.workspace_files = 1000;
    facts.workspace_full = true;
    facts.exited.scratch_files = 1;
    assert_non_null(strstr(decide(facts).hint, "1 file was left in /tmp"));
    facts.exited.value = 1;
    assert_non_null(strstr(decide(facts).hint, "256 MiB in 1000 files"));
}

static void full_scratch_gives_a_hint_to_who_failed(void **state)
{
    struct facts facts = ended_well();
    facts.workspace_bytes = 256 << 20;
    facts.scratch_bytes = 64 << 20;
    facts.exited.scratch_full = 1;
    assert_string_equal(decide(facts).hint, "");
    facts.exited.value = 1;
    assert_non_null(strstr(decide(facts).hint, "/tmp and /dev/shm have 64 MiB each"));
    assert_non_null(strstr(decide(facts).hint, "/workspace, which has 256 MiB"));
}

static const char *hint_to(const char *said, const struct limits *most, int value)
{
    static struct outcome outcome;
    struct facts facts = ended_well();

    facts.exited.value = value;
    facts.ceiling = most;
    facts.said = said;
    facts.said_size = strlen(said);
    outcome_decide(&facts, &outcome);
    return outcome.hint;
}

static void failure_for_want_of_a_network_names_the_option_that_asks_for_it(void **state)
{
    static const char *const sayings[] = {
        "socket.gaierror: [Errno -3] Temporary failure in name resolution\n",
        "Error: getaddrinfo EAI_AGAIN example.org",
        "ERROR: No matching distribution found for x",
        "OSError: [Errno 101] Network is unreachable",
    };
    struct limits online = ceiling;

    online.network = true;
    for (size_t i = 0; i < sizeof(sayings) / sizeof(sayings[0]); i++) {
        assert_string_equal(
            hint_to(sayings[i], &online, 1),
            "This run had no network; --network asks for it, which needs an approval.");
        assert_string_equal(hint_to(sayings[i], &ceiling, 1),
                            "This run had no network, and this machine allows none.");
        assert_string_equal(hint_to(sayings[i], &online, 0), "");
    }
    assert_string_equal(hint_to("ValueError: nothing of the kind", &online, 1), "");
}

static void run_with_a_network_is_not_told_to_ask_for_one(void **state)
{
    struct facts facts = ended_well();
    struct limits online = limits;

    online.network = true;
    facts.limits = &online;
    facts.exited.value = 1;
    facts.said = "Temporary failure in name resolution";
    facts.said_size = strlen(facts.said);
    assert_string_equal(decide(facts).hint,
                        "The one way to the network is the proxy that HTTPS_PROXY names: what does "
                        "not use it has no network.");
}

static void refused_connection_is_a_hint_to_who_failed(void **state)
{
    struct facts facts = ended_well();

    facts.network_refusal = "bad.example:443 was refused by DeniedNames=bad.example";
    assert_string_equal(decide(facts).hint, "");
    facts.exited.value = 1;
    facts.said = "Temporary failure in name resolution";
    facts.said_size = strlen(facts.said);
    assert_string_equal(decide(facts).hint,
                        "bad.example:443 was refused by DeniedNames=bad.example; ask the "
                        "administrator.");
    facts.network_refusal = "b.example:443 was refused by --network=a.example";
    assert_string_equal(decide(facts).hint, "b.example:443 was refused by --network=a.example; "
                                            "--network can name more hosts.");
}

/* Memory and the way out are the cloud's there: the limits of this machine explain nothing. */
static void in_a_cloud_nothing_is_explained_by_this_machine(void **state)
{
    static const char said[] = "socket.gaierror: Temporary failure in name resolution";
    struct facts facts = ended_well();
    struct limits online = limits;

    facts.cloud = true;
    facts.exited = (struct launch_exited){ .kind = LAUNCH_EXIT_SIGNAL, .value = SIGKILL };
    assert_string_equal(decide(facts).reason, "The program was killed by signal 9 (SIGKILL).");
    facts.ended.oom_kills = 1;
    struct outcome outcome = decide(facts);
    assert_int_equal(outcome.status, RUN_OUT_OF_MEMORY);
    assert_string_equal(outcome.reason, "The program was ended because it needed more memory than "
                                        "its cloud sandbox has.");
    assert_null(strstr(outcome.hint, "--memory"));
    assert_non_null(strstr(outcome.hint, "--template"));
    facts.exited = (struct launch_exited){ .kind = LAUNCH_EXIT_CODE, .value = 1 };
    outcome = decide(facts);
    assert_non_null(strstr(outcome.reason, "more memory than its cloud sandbox has"));
    assert_null(strstr(outcome.hint, "--memory"));
    facts.ended.oom_kills = 0;
    facts.said = said;
    facts.said_size = strlen(said);
    online.network = true;
    facts.limits = &online;
    assert_null(strstr(decide(facts).hint, "PROXY"));
    assert_non_null(strstr(decide(facts).hint, "hosts that were granted"));
    facts.exited = (struct launch_exited){ .kind = LAUNCH_EXIT_EXEC, .value = ENOENT };
    assert_non_null(strstr(decide(facts).hint, "--template"));
}

static void lost_network_is_mentioned_however_it_ended(void **state)
{
    struct facts facts = ended_well();

    facts.network_lost = true;
    assert_string_equal(decide(facts).reason,
                        "The program ended well. Its way to the network was lost before it ended.");
    facts.exited.value = 3;
    assert_non_null(strstr(decide(facts).reason, "exit status 3. Its way to the network was lost"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_status_0_is_success_without_a_hint),
        cmocka_unit_test(run_that_an_engine_lost_is_lost_in_its_own_words),
        cmocka_unit_test(program_that_an_engine_could_not_start_failed_with_its_sentence),
        cmocka_unit_test(other_exit_status_is_failure_and_is_named),
        cmocka_unit_test(sigkill_with_an_oom_kill_is_out_of_memory_with_limit_and_peak),
        cmocka_unit_test(sigkill_without_an_oom_kill_is_not_memory),
        cmocka_unit_test(oom_kill_of_a_child_is_mentioned_with_the_parents_status),
        cmocka_unit_test(our_clock_wins_over_what_the_program_said_afterwards),
        cmocka_unit_test(more_time_than_a_fraction_of_a_second_is_a_second),
        cmocka_unit_test(at_the_ceiling_no_hint_asks_for_more),
        cmocka_unit_test(missing_interpreter_is_named_and_has_status_127),
        cmocka_unit_test(silent_launcher_is_killed_and_silent_engine_is_lost),
        cmocka_unit_test(counters_that_an_engine_cannot_tell_are_no_facts),
        cmocka_unit_test(leftovers_are_mentioned),
        cmocka_unit_test(files_are_told_apart_in_an_out_of_memory),
        cmocka_unit_test(refused_tasks_are_mentioned_unless_it_did_not_matter),
        cmocka_unit_test(full_workspace_and_files_in_tmp_give_hints),
        cmocka_unit_test(a_gone_caller_is_told_apart_from_a_cancelled_run),
        cmocka_unit_test(full_scratch_gives_a_hint_to_who_failed),
        cmocka_unit_test(failure_for_want_of_a_network_names_the_option_that_asks_for_it),
        cmocka_unit_test(run_with_a_network_is_not_told_to_ask_for_one),
        cmocka_unit_test(refused_connection_is_a_hint_to_who_failed),
        cmocka_unit_test(in_a_cloud_nothing_is_explained_by_this_machine),
        cmocka_unit_test(lost_network_is_mentioned_however_it_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
