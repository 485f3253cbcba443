/* SPDX-License-Identifier: Apache-2.0
 *
 * A run that is told to stop: it ends soon, with 128 + the signal, says what it has done, and takes
 * up nothing new. Wherever it stands: training, evaluating, writing text, waiting for the reader of
 * its output. A second interrupt ends it at once.
 */
#include "test.h"

#include <jansson.h>

#include "support.h"

static const char mlp[] = "[model]\nuse = \"mlp\"\nlayers = 3\n[data]\nkind = \"synthetic\"\n"
                          "[train]\nsteps = 100000000\nbatch = 16\nmicrobatch = 4\n"
                          "eval_batches = 1000000\n"
                          "[cluster]\ndevices = 3\n[partitioner]\nuse = \"uniform\"\n"
                          "[scheduler]\nuse = \"1f1b\"\n[[memopt]]\nuse = \"none\"\n";
static const char gpt[] = "[model]\nuse = \"gpt\"\nlayers = 1\ndim = 8\nheads = 2\ncontext = 8\n"
                          "[data]\nkind = \"text\"\ntrain = \"/usr/share/common-licenses/GPL-2\"\n"
                          "[train]\nsteps = 1\nbatch = 4\nmicrobatch = 2\neval_batches = 0\n"
                          "sample = 1000000\n"
                          "[cluster]\ndevices = 2\n[partitioner]\nuse = \"uniform\"\n"
                          "[scheduler]\nuse = \"1f1b\"\n[[memopt]]\nuse = \"none\"\n";

struct run {
    pid_t pid;
    FILE *out;
    int err;
};

static struct run start(const char *name, const char *config, const char *set)
{
    const char *args[] = {"train", support_write(name, config), "--json", "--set", set, NULL};
    struct run run;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    run.err = memfd_create("err", MFD_CLOEXEC);
    run.pid = support_spawn(args, ends[1], run.err);
    close(ends[1]);
    run.out = fdopen(ends[0], "r");
    assert_non_null(run.out);
    return run;
}

/* The next line as an object, NULL at the end. */
static json_t *next(struct run *run)
{
    char *line = NULL;
    size_t room = 0;
    json_t *object = NULL;

    if (getline(&line, &room, run->out) > 0) {
        object = json_loads(line, 0, NULL);
        assert_non_null(object);
    }
    free(line);
    return object;
}

static void wait_for_step(struct run *run)
{
    json_t *object = next(run);

    assert_non_null(object);
    assert_int_equal(json_integer_value(json_object_get(object, "step")), 1);
    json_decref(object);
}

/* Reads to the end: steps go on no further than one, the last line tells of the signal. */
static void check_end(struct run *run, int signal_number)
{
    json_t *object, *last = NULL;
    uint32_t n_evals = 0;
    char *text;

    while ((object = next(run)) != NULL) {
        n_evals += json_is_true(json_object_get(object, "eval"));
        json_decref(last);
        last = object;
    }
    assert_int_equal(support_wait(run->pid), 128 + signal_number);
    assert_int_equal(n_evals, 0);
    assert_non_null(last);
    assert_true(json_is_true(json_object_get(last, "done")));
    assert_int_equal(json_integer_value(json_object_get(last, "signal")), signal_number);
    assert_true(json_is_null(json_object_get(last, "eval_loss")));
    json_decref(last);
    fclose(run->out);
    text = support_drain(run->err);
    assert_non_null(strstr(text, signal_number == SIGINT ? "stopped by SIGINT" : "by SIGTERM"));
    free(text);
}

TEST(test_training)
{
    const int signals[] = {SIGINT, SIGTERM};

    for (uint32_t i = 0; i < 2; i++) {
        struct run run = start("training.toml", mlp, "train.eval_every=0");

        wait_for_step(&run);
        kill(run.pid, signals[i]);
        check_end(&run, signals[i]);
    }
}

/* Without flushes the pipeline is full when the signal comes, or about to run empty. */
TEST(test_asynchronous)
{
    static const char *const drains[] = {"train.drain_every=0", "train.drain_every=1",
                                         "train.drain_every=2", "train.drain_every=3"};
    char config[sizeof mlp];

    for (uint32_t i = 0; i < 4; i++) {
        int number = i & 1 ? SIGTERM : SIGINT;
        struct run run;
        char *use;

        memcpy(config, mlp, sizeof mlp);
        use = strstr(config, "1f1b\"");
        assert_non_null(use);
        memcpy(use, "2bw\" ", 5);
        run = start("asynchronous.toml", config, drains[i]);
        wait_for_step(&run);
        kill(run.pid, number);
        check_end(&run, number);
    }
}

/* A million batches of held-out data would take minutes. */
TEST(test_evaluation)
{
    struct run run = start("evaluation.toml", mlp, "train.eval_every=1");

    wait_for_step(&run);
    kill(run.pid, SIGINT);
    check_end(&run, SIGINT);
}

TEST(test_generation)
{
    struct run run = start("generation.toml", gpt, "train.seed=2");

    wait_for_step(&run);
    kill(run.pid, SIGTERM);
    check_end(&run, SIGTERM);
}

/* The program sits in a write that nobody takes: only the second interrupt helps. */
TEST(test_twice)
{
    struct run run = start("twice.toml", mlp, "train.eval_every=0");
    const struct timespec pause = {0, 20000000};
    int status = 0;

    wait_for_step(&run);
    for (uint32_t i = 0; i < 1000 && waitpid(run.pid, &status, WNOHANG) == 0; i++) {
        kill(run.pid, SIGINT);
        nanosleep(&pause, NULL);
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
    fclose(run.out);
    close(run.err);
}

TEST_GROUP(support_begin, support_end)
