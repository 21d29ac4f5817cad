/* The store as the broker uses it (helper/broker/store.h): jobs, and the process that does them. */
#include "store-broker.h"
#include "broker/store-confine.h"
#include "broker/store-process.h"

#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Waits, with a bound, until a file is gone. */
static bool gone_within(int dirfd, const char *name, int seconds)
{
    for (int i = 0; i < seconds * 100 && exists_at(dirfd, name); i++)
        usleep(10 * 1000);
    return !exists_at(dirfd, name);
}

/* ---- Jobs ---- */

static void published_run_belongs_to_its_caller_alone(void **state)
{
    struct fixture *f = *state;

    make_directory_at(f->scratch.workspace, "plots");
    write_file_at(f->scratch.workspace, "plots/a", "plot");
    write_file_at(f->scratch.workspace, "tool", "t");
    assert_int_equal(fchmodat(f->scratch.workspace, "tool", 04755, 0), 0);
    publish_run_of(f, RUN_ID);

    int run = open_run(f, RUN_ID);
    const char *const names[] = { ".",         "..",          "stdout",
                                  "files",     "files/plots", "files/plots/a",
                                  "files/tool" };
    const mode_t modes[] = { 0700, 0700, 0600, 0700, 0700, 0600, 0700 };
    for (size_t i = 0; i < ELEMENTS(names); i++) {
        struct stat st = stat_at(run, names[i]);
        assert_int_equal(st.st_uid, f->uid);
        assert_int_equal(st.st_gid, is_root() ? 4343 : getegid());
        assert_int_equal(st.st_mode & 07777, modes[i]);
    }
    assert_string_equal(file_at(run, "files/plots/a"), "plot");
    assert_false(exists_at(f->state, "staging/" RUN_ID));
    assert_int_equal(stat_at(f->state, "users").st_mode & 07777, 0711);
    assert_int_equal(stat_at(f->state, "users").st_uid, geteuid());
    close(run);
}

static void file_and_folder_of_mode_000_are_collected(void **state)
{
    struct fixture *f = *state;

    if (!is_root())
        skip();
    make_directory_at(f->scratch.workspace, "closed");
    write_file_at(f->scratch.workspace, "closed/file", "x");
    assert_int_equal(fchownat(f->scratch.workspace, "closed/file", 777, 777, 0), 0);
    assert_int_equal(fchownat(f->scratch.workspace, "closed", 777, 777, 0), 0);
    assert_int_equal(fchmodat(f->scratch.workspace, "closed/file", 0, 0), 0);
    assert_int_equal(fchmodat(f->scratch.workspace, "closed", 0, 0), 0);
    publish_run_of(f, RUN_ID);
    int run = open_run(f, RUN_ID);
    assert_string_equal(file_at(run, "files/closed/file"), "x");
    close(run);
}

static void run_without_a_workspace_is_published(void **state)
{
    struct fixture *f = *state;
    struct store_collect request = collection(f, RUN_ID);
    struct outcome o = { 0 };

    stage(f, RUN_ID);
    request.workspace = -1;
    assert_int_equal(store_collect(f->store, &request, on_done, &o, &f->job), 0);
    wait_for(f, &o);
    assert_int_equal(o.error, 0);
    assert_int_equal(count_of(o.result, "files"), 0);
    outcome_release(&o);
    assert_int_equal(publish(f), 0);
}

static void inputs_reach_the_store_with_their_names(void **state)
{
    struct fixture *f = *state;
    const char *name = "odd\\x41 \xff\nname";
    struct outcome o = { 0 };

    write_file_at(f->scratch.workspace, name, "in");
    struct stat st = stat_at(f->scratch.workspace, name);
    const struct store_input input = { .name = name,
                                       .inode = st.st_ino,
                                       .size = 2,
                                       .ctime_sec = st.st_ctim.tv_sec,
                                       .ctime_nsec = st.st_ctim.tv_nsec,
                                       .mtime_sec = st.st_mtim.tv_sec,
                                       .mtime_nsec = st.st_mtim.tv_nsec };
    struct store_collect request = collection(f, RUN_ID);
    request.inputs = &input;
    request.n_inputs = 1;
    stage(f, RUN_ID);
    assert_int_equal(store_collect(f->store, &request, on_done, &o, &f->job), 0);
    wait_for(f, &o);
    assert_int_equal(o.error, 0);
    assert_int_equal(count_of(o.result, "files"), 0);
    outcome_release(&o);
}

static void job_freed_before_publishing_leaves_no_copies(void **state)
{
    struct fixture *f = *state;
    struct outcome o = { 0 };

    write_file_at(f->scratch.workspace, "file", "x");
    stage(f, RUN_ID);
    assert_int_equal(collect(f, RUN_ID, &o), 0);
    outcome_release(&o);
    assert_true(exists_at(f->state, "staging/" RUN_ID "/files/file"));
    f->job = store_job_free(f->job);
    assert_true(gone_within(f->state, "staging/" RUN_ID "/files", 5));
    assert_true(exists_at(f->state, "staging/" RUN_ID "/stdout"));
}

static void collection_after_one_that_was_killed_begins_anew(void **state)
{
    struct fixture *f = *state;
    struct outcome o = { 0 };

    write_file_at(f->scratch.workspace, "file", "x");
    stage(f, RUN_ID);
    make_directory_at(f->state, "staging/" RUN_ID "/files");
    write_file_at(f->state, "staging/" RUN_ID "/files/half", "h");
    assert_int_equal(collect(f, RUN_ID, &o), 0);
    assert_int_equal(count_of(o.result, "files"), 1);
    outcome_release(&o);
    assert_false(exists_at(f->state, "staging/" RUN_ID "/files/half"));
    assert_int_equal(publish(f), 0);
}

static void published_run_replaces_no_other(void **state)
{
    struct fixture *f = *state;
    struct outcome o = { 0 };

    publish_run_of(f, RUN_ID);
    stage(f, RUN_ID);
    assert_int_equal(collect(f, RUN_ID, &o), 0);
    outcome_release(&o);
    assert_int_equal(publish(f), -EEXIST);
}

static void folder_of_somebody_else_takes_no_run(void **state)
{
    struct fixture *f = *state;
    struct outcome o = { 0 };

    if (!is_root())
        skip();
    make_directory_at(f->state, "users/4242");
    assert_int_equal(fchownat(f->state, "users/4242", 777, 777, 0), 0);
    stage(f, RUN_ID);
    assert_int_equal(collect(f, RUN_ID, &o), 0);
    outcome_release(&o);
    assert_int_equal(publish(f), -EPERM);
    assert_int_equal(stat_at(f->state, "users/4242").st_uid, 777);
}

static void only_files_of_the_run_change_their_owner(void **state)
{
    struct fixture *f = *state;
    struct outcome o = { 0 };

    stage(f, RUN_ID);
    assert_int_equal(collect(f, RUN_ID, &o), 0);
    outcome_release(&o);
    assert_int_equal(
        linkat(f->scratch.outside, "secret", f->state, "staging/" RUN_ID "/run.json", 0), 0);
    assert_int_equal(publish(f), -EPERM);
    assert_int_equal(stat_at(f->scratch.outside, "secret").st_uid, geteuid());
    assert_false(exists_at(f->state, "users/4242/" RUN_ID));
}

static void file_of_somebody_else_is_not_given_away(void **state)
{
    struct fixture *f = *state;
    struct outcome o = { 0 };

    if (!is_root())
        skip();
    stage(f, RUN_ID);
    assert_int_equal(fchownat(f->state, "staging/" RUN_ID "/stdout", 777, 777, 0), 0);
    assert_int_equal(collect(f, RUN_ID, &o), 0);
    outcome_release(&o);
    assert_int_equal(publish(f), -EPERM);
    assert_int_equal(stat_at(f->state, "staging/" RUN_ID "/stdout").st_uid, 777);
}

static void half_published_run_is_discarded(void **state)
{
    struct fixture *f = *state;
    struct outcome o = { 0 };

    stage(f, RUN_ID);
    make_directory_at(f->state, "staging/" RUN_ID "/files");
    write_file_at(f->state, "staging/" RUN_ID "/files/x", "x");
    if (is_root()) {
        assert_int_equal(fchownat(f->state, "staging/" RUN_ID "/files/x", 4242, 4343, 0), 0);
        assert_int_equal(fchownat(f->state, "staging/" RUN_ID "/files", 4242, 4343, 0), 0);
    }
    assert_int_equal(finish(f, store_discard(f->store, RUN_ID, on_done, &o, &f->job), &o), 0);
    assert_false(exists_at(f->state, "staging/" RUN_ID));
    outcome_release(&o);
    assert_int_equal(finish(f, store_discard(f->store, RUN_ID, on_done, &o, &f->job), &o), -ENOENT);
    outcome_release(&o);
}

static void ids_of_another_form_are_refused(void **state)
{
    struct fixture *f = *state;
    const char *const ids[] = { "",           ".",
                                "..",         "../outside",
                                "0123456",    "ABCDEF01",
                                "01234567/x", "0123456789abcdef0123456789abcdef0" };

    for (size_t i = 0; i < ELEMENTS(ids); i++)
        assert_int_equal(remove_run(f, f->uid, ids[i]), -EINVAL);
    assert_true(exists_at(f->scratch.outside, "secret"));
}

static void many_jobs_wait_and_all_are_done(void **state)
{
    struct fixture *f = *state;
    enum { N = 60 };
    struct outcome outcomes[N] = { 0 };
    struct store_job *jobs[N];

    publish_run_of(f, RUN_ID);
    for (int i = 0; i < N; i++)
        assert_int_equal(
            store_open(f->store, f->uid, RUN_ID, "stdout", on_done, &outcomes[i], &jobs[i]), 0);
    for (int i = 0; i < N; i++) {
        wait_for(f, &outcomes[i]);
        assert_int_equal(outcomes[i].error, 0);
        outcome_release(&outcomes[i]);
        store_job_free(jobs[i]);
    }
}

static void jobs_of_one_caller_hold_up_nobody_else(void **state)
{
    struct fixture *f = *state;
    enum { N = 20 };
    struct store_job *jobs[N];
    struct outcome outcomes[N] = { 0 }, other = { 0 };
    char id[32];

    for (int i = 0; i < N; i++) {
        snprintf(id, sizeof(id), "0123456789%02d", i);
        stage(f, id);
        struct store_collect request = collection(f, id);
        assert_int_equal(store_collect(f->store, &request, on_done, &outcomes[i], &jobs[i]), 0);
    }
    /* All places of this caller are taken by jobs that wait for their publishing. */
    assert_int_equal(
        finish(f, store_remove(f->store, f->uid + 1, RUN_ID, on_done, &other, &f->job), &other),
        -ENOENT);
    outcome_release(&other);
    assert_false(outcomes[N - 1].done);
    for (int i = 0; i < N; i++) {
        wait_for(f, &outcomes[i]);
        assert_int_equal(outcomes[i].error, 0);
        outcome_release(&outcomes[i]);
        store_job_free(jobs[i]);
    }
}

/* Takes all places of the caller, until the jobs are freed. */
static void occupy(struct fixture *f, struct store_job *jobs[STORE_RUNNING_USER_MAX])
{
    char id[32];

    for (int i = 0; i < STORE_RUNNING_USER_MAX; i++) {
        struct outcome o = { 0 };
        snprintf(id, sizeof(id), "0123456789%02d", i);
        stage(f, id);
        struct store_collect request = collection(f, id);
        assert_int_equal(store_collect(f->store, &request, on_done, &o, &jobs[i]), 0);
        wait_for(f, &o);
        assert_int_equal(o.error, 0);
        outcome_release(&o);
    }
}

static void questions_of_one_caller_take_few_places_and_none_when_nobody_hears(void **state)
{
    struct fixture *f = *state;
    enum { N = STORE_ASKING_USER_MAX };
    struct store_job *busy[STORE_RUNNING_USER_MAX], *jobs[N];
    struct outcome outcomes[N] = { 0 }, more = { 0 }, last = { 0 };

    occupy(f, busy);
    for (int i = 0; i < N; i++)
        assert_int_equal(store_layer_list(f->store, f->uid, on_done, &outcomes[i], &jobs[i]), 0);
    assert_int_equal(finish(f, store_layer_list(f->store, f->uid, on_done, &more, &f->job), &more),
                     -EBUSY);
    for (int i = 0; i < N; i++)
        store_job_free(jobs[i]);
    assert_int_equal(store_layer_list(f->store, f->uid, on_done, &last, &f->job), 0);
    for (int i = 0; i < STORE_RUNNING_USER_MAX; i++)
        store_job_free(busy[i]);
    wait_for(f, &last);
    assert_int_equal(last.error, 0);
    outcome_release(&last);
}

/* ---- The process ---- */

/* The oldest child; 0 if there is none. */
static pid_t child_of(pid_t pid)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    const char *text = file_at(AT_FDCWD, path);
    return text ? (pid_t)strtol(text, NULL, 10) : 0;
}

/* Our one child. */
static pid_t store_pid(void)
{
    pid_t pid = child_of(getpid());

    assert_true(pid > 1);
    return pid;
}

/* The child that waits for a job, and not @last, which it had before. */
static pid_t spare_pid(pid_t last)
{
    pid_t store = store_pid(), pid = 0;

    for (int i = 0; i < 500 && (pid == 0 || pid == last); i++) {
        pid = child_of(store);
        usleep(10 * 1000);
    }
    assert_true(pid > 1 && pid != last);
    return pid;
}

/* A line of /proc/PID/status, as a number. */
static unsigned long long status_of(pid_t pid, const char *field, int base)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    const char *text = file_at(AT_FDCWD, path), *line = text ? strstr(text, field) : NULL;
    assert_non_null(line);
    return strtoull(line + strlen(field), NULL, base);
}

static void store_process_holds_three_capabilities_a_filter_and_its_own_fds(void **state)
{
    struct fixture *f = *state;
    char path[64];
    int n = 0;

    publish_run_of(f, RUN_ID); /* so that it has finished its preparations */
    pid_t pid = store_pid();
    unsigned long long all =
        is_root() ? 1 << CAP_CHOWN | 1 << CAP_DAC_OVERRIDE | 1 << CAP_FOWNER : 0;
    assert_int_equal(status_of(pid, "CapPrm:", 16), all);
    assert_int_equal(status_of(pid, "CapEff:", 16), all);
    assert_int_equal(status_of(pid, "CapInh:", 16), 0);
    assert_int_equal(status_of(pid, "CapAmb:", 16), 0);
    assert_int_equal(status_of(pid, "NoNewPrivs:", 10), 1);
    assert_int_equal(status_of(pid, "Seccomp:", 10), 2);

    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    if (!dir)
        skip(); /* not dumpable, so its /proc belongs to root */
    for (struct dirent *e; (e = readdir(dir));)
        n += e->d_name[0] != '.';
    closedir(dir);
    /* standard ones; socket, state directory, signals; both ends of the way to the spare child */
    assert_int_equal(n, 3 + 3 + 2);
}

static void next_job_is_done_by_the_child_that_waits_for_it(void **state)
{
    struct fixture *f = *state;
    struct outcome o = { 0 };
    char path[64];

    for (pid_t spare = 0, round = 0; round < 3; round++) {
        spare = spare_pid(spare);
        write_file_at(f->scratch.workspace, "file", "x");
        stage(f, RUN_ID);
        assert_int_equal(collect(f, RUN_ID, &o), 0);
        assert_int_equal(count_of(o.result, "files"), 1);
        outcome_release(&o);
        assert_int_equal(child_of(store_pid()), spare);
        snprintf(path, sizeof(path), "/proc/%d/comm", spare);
        assert_string_equal(file_at(AT_FDCWD, path), "sbxctl-job\n");
        f->job = store_job_free(f->job);
        assert_true(gone_within(f->state, "staging/" RUN_ID "/files", 5));
        assert_int_equal(unlinkat(f->state, "staging/" RUN_ID "/stdout", 0), 0);
        assert_int_equal(unlinkat(f->state, "staging/" RUN_ID, AT_REMOVEDIR), 0);
    }
}

static int open_process(pid_t pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

    assert_true(pidfd >= 0);
    return pidfd;
}

static void await_end(int pidfd)
{
    struct pollfd ended = { .fd = pidfd, .events = POLLIN };

    assert_int_equal(poll(&ended, 1, 10 * 1000), 1);
    close(pidfd);
}

static void killed_spare_child_is_no_loss(void **state)
{
    struct fixture *f = *state;
    pid_t spare = spare_pid(0);
    int pidfd = open_process(spare);

    assert_int_equal(kill(spare, SIGKILL), 0);
    await_end(pidfd);
    publish_run_of(f, RUN_ID);
    assert_int_not_equal(spare_pid(spare), 0);
}

static void spare_child_ends_with_the_store(void **state)
{
    struct fixture *f = *state;
    int pidfd = open_process(spare_pid(0));

    f->store = store_free(f->store);
    await_end(pidfd);
}

static void confined_process_makes_no_socket_and_runs_no_program(void **state)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        char *argv[] = { NULL };
        if (confine_self() < 0)
            _exit(1);
        if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != ENOSYS)
            _exit(2);
        if (execv("/bin/true", argv) == 0 || errno != ENOSYS)
            _exit(3);
        if (unshare(CLONE_NEWUSER) == 0 || errno != ENOSYS)
            _exit(4);
        if (syscall(SYS_ptrace, 0, 0, 0, 0) == 0 || errno != ENOSYS)
            _exit(5);
        if (kill(getppid(), 0) == 0 || errno != ENOSYS)
            _exit(6);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void store_ends_with_its_broker(void **state)
{
    struct fixture *f = *state;
    int pipe_fds[2];
    char path[128];

    /* A "broker" that is killed with a job at work; the store and its job hold the pipe's other end
     * by their stdout. */
    snprintf(path, sizeof(path), "%s/state", f->scratch.path);
    stage(f, RUN_ID);
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    pid_t broker = fork();
    if (broker == 0) {
        struct fixture mine = { .scratch = f->scratch, .uid = f->uid };
        struct outcome o = { 0 };
        dup2(pipe_fds[1], STDOUT_FILENO);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
        if (store_fork(path, &mine.store) < 0 || sd_event_new(&mine.event) < 0 ||
            store_attach(mine.store, mine.event) < 0)
            _exit(1);
        collect(&mine, RUN_ID, &o);
        (void)!write(STDOUT_FILENO, "!", 1);
        pause();
        _exit(0);
    }
    close(pipe_fds[1]);
    char byte = 0;
    assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
    assert_int_equal(kill(broker, SIGKILL), 0);
    assert_int_equal(waitpid(broker, NULL, 0), broker);
    struct pollfd end = { .fd = pipe_fds[0], .events = POLLIN };
    assert_int_equal(poll(&end, 1, 2000), 1);
    assert_int_equal(read(pipe_fds[0], &byte, 1), 0);
    close(pipe_fds[0]);
}

static void death_of_the_store_ends_the_event_loop(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(kill(store_pid(), SIGKILL), 0);
    assert_true(sd_event_run(f->event, WAIT_USEC) > 0);
    int code = 0;
    assert_int_equal(sd_event_get_exit_code(f->event, &code), 0);
    assert_int_equal(code, -EPIPE);
    assert_true(store_remove(f->store, f->uid, RUN_ID, on_done, NULL, &f->job) < 0);
}

/* As the service does it: a system user who holds the three capabilities and is not root. */
static int become_service_user(struct fixture *f)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    const uint32_t caps = 1 << CAP_CHOWN | 1 << CAP_DAC_OVERRIDE | 1 << CAP_FOWNER;
    struct __user_cap_data_struct data[2] = { { .permitted = caps, .effective = caps } };

    if (chmod(f->scratch.path, 0755) < 0 || fchown(f->state, 4141, 4141) < 0 ||
        fchownat(f->state, "users", 4141, 4141, 0) < 0 ||
        fchownat(f->state, "layers", 4141, 4141, 0) < 0 ||
        fchownat(f->state, "staging", 4141, 4141, 0) < 0 || prctl(PR_SET_KEEPCAPS, 1) < 0 ||
        setresgid(4141, 4141, 4141) < 0 || setresuid(4141, 4141, 4141) < 0)
        return -errno;
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

/* Makes a layer of the folder that nobody may read, and removes it. */
static int install_closed_layer(struct fixture *f)
{
    const struct store_layer layer = {
        .uid = f->uid,
        .key = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        .workspace = f->scratch.workspace,
        .folder = "closed",
        .files_max = 10,
        .bytes_max = 10,
        .facts = json_object_new_object(),
    };
    struct outcome o = { 0 };

    int r = finish(f, store_layer_install(f->store, &layer, on_done, &o, &f->job), &o);
    json_object_put(layer.facts);
    outcome_release(&o);
    if (r < 0)
        return r;
    return finish(f, store_layer_remove(f->store, f->uid, layer.key, on_done, &o, &f->job), &o);
}

static void service_user_with_three_capabilities_can_do_all_of_it(void **state)
{
    struct fixture *f = *state;
    int status;

    if (!is_root())
        skip();
    make_directory_at(f->scratch.workspace, "closed");
    write_file_at(f->scratch.workspace, "closed/file", "x");
    assert_int_equal(fchownat(f->scratch.workspace, "closed", 777, 777, 0), 0);
    assert_int_equal(fchmodat(f->scratch.workspace, "closed", 0, 0), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct fixture mine = { .scratch = f->scratch, .state = f->state, .uid = f->uid };
        struct store_collect request;
        struct outcome o = { 0 };
        char path[128];
        snprintf(path, sizeof(path), "%s/state", f->scratch.path);
        if (become_service_user(&mine) < 0 || store_fork(path, &mine.store) < 0 ||
            sd_event_new(&mine.event) < 0 || store_attach(mine.store, mine.event) < 0)
            _exit(1);
        stage(&mine, RUN_ID);
        request = collection(&mine, RUN_ID);
        request.gid = 4343;
        if (store_collect(mine.store, &request, on_done, &o, &mine.job) < 0)
            _exit(2);
        wait_for(&mine, &o);
        if (o.error < 0 || count_of(o.result, "files") != 1 || publish(&mine) < 0)
            _exit(3);
        int fd = open_kept(&mine, mine.uid, "files/closed/file");
        if (fd < 0 || remove_run(&mine, mine.uid, RUN_ID) < 0)
            _exit(4);
        _exit(install_closed_layer(&mine) < 0 ? 5 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(published_run_belongs_to_its_caller_alone),
        T(file_and_folder_of_mode_000_are_collected),
        T(run_without_a_workspace_is_published),
        T(inputs_reach_the_store_with_their_names),
        T(collection_after_one_that_was_killed_begins_anew),
        T(job_freed_before_publishing_leaves_no_copies),
        T(published_run_replaces_no_other),
        T(folder_of_somebody_else_takes_no_run),
        T(only_files_of_the_run_change_their_owner),
        T(file_of_somebody_else_is_not_given_away),
        T(half_published_run_is_discarded),
        T(ids_of_another_form_are_refused),
        T(many_jobs_wait_and_all_are_done),
        T(jobs_of_one_caller_hold_up_nobody_else),
        T(questions_of_one_caller_take_few_places_and_none_when_nobody_hears),
        T(store_process_holds_three_capabilities_a_filter_and_its_own_fds),
        T(next_job_is_done_by_the_child_that_waits_for_it),
        T(killed_spare_child_is_no_loss),
        T(spare_child_ends_with_the_store),
        cmocka_unit_test(confined_process_makes_no_socket_and_runs_no_program),
        T(store_ends_with_its_broker),
        T(death_of_the_store_ends_the_event_loop),
        T(service_user_with_three_capabilities_can_do_all_of_it),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
