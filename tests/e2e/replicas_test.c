/* SPDX-License-Identifier: Apache-2.0
 *
 * Replicas through the program. With equal micro-batches and replica counts every cut, order and
 * memory action gives the same losses and norms, bit for bit, data parallelism without a pipeline
 * among them; against one device, whose sums are others, they agree as far as sums do. Plans are
 * written, checked and run from their files; what cannot be had is refused in words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "e2e/bits_models.h"

static const char mlp[] = "[model]\nuse = \"mlp\"\nlayers = 6\ninputs = 12\nhidden = 16\n"
                          "[data]\nkind = \"synthetic\"\n";

static double loss_at(const struct trace *trace, uint32_t step)
{
    return strtod(trace->losses[step], NULL);
}

/* The batch has another order of summation on one device: a few units in the last place of what
   float sums hold, which steps make more of. */
static void expect_close(const char *what, const struct trace *a, const struct trace *b)
{
    assert_int_equal(a->n_steps, b->n_steps);
    for (uint32_t i = 0; i < a->n_steps; i++) {
        double x = loss_at(a, i), y = loss_at(b, i);

        if (!(fabs(x - y) <= 2e-5 * fabs(y)) ||
            !(fabs(a->norms[i] - b->norms[i]) <= 2e-3 * b->norms[i])) {
            fail_msg("%s, step %u: loss %.9g, norm %.9g; on one device %.9g, %.9g", what, i + 1, x,
                     a->norms[i], y, b->norms[i]);
        }
    }
}

#define WIDE "train.microbatch=4"

/* Two replicas everywhere, on 2 to 8 devices. */
static void check_pairs(const char *path, struct trace *ret_first)
{
    static const char *const sets[][6] = {
        {"cluster.devices=4", "scheduler.use=gpipe", "memopt.use=full"},
        {"cluster.devices=4", "scheduler.use=1f1b", "partitioner.use=chain-dp"},
        {"cluster.devices=8", "scheduler.use=zb-h1", "partitioner.use=chain-dp"},
        {"cluster.devices=4", "scheduler={use=\"interleaved\",chunks=2}", "train.batch=16"},
        {"cluster.devices=4", "scheduler.use=v-half", "train.batch=16", "memopt.use=full"},
    };
    struct trace trace, longer;

    bits_train(path, (const char *const[]){WIDE, "train.degrees=[2]", "cluster.devices=2", NULL},
               ret_first);
    bits_train(path,
               (const char *const[]){WIDE, "train.degrees=[2]", "cluster.devices=2",
                                     "train.batch=16", NULL},
               &longer);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        const char *all[9] = {WIDE, "train.degrees=[2]"};
        bool is_longer = false;

        for (uint32_t k = 0; sets[i][k] != NULL; k++) {
            all[2 + k] = sets[i][k];
            is_longer = is_longer || strcmp(sets[i][k], "train.batch=16") == 0;
        }
        bits_train(path, all, &trace);
        bits_expect_same(sets[i][1], &trace, is_longer ? &longer : ret_first);
    }
}

/* close: to one device; batch norm sees other samples there. */
static void check_model(const char *name, const char *model, bool close)
{
    const char *path = bits_config(name, model);
    struct trace pair, four, trace, one;

    check_pairs(path, &pair);
    bits_train(path, (const char *const[]){WIDE, NULL}, &one);
    bits_train(path, (const char *const[]){WIDE, "train.degrees=[4]", "cluster.devices=4", NULL},
               &four);
    bits_train(path,
               (const char *const[]){WIDE, "train.degrees=[4]", "cluster.devices=8",
                                     "scheduler.use=1f1b", NULL},
               &trace);
    bits_expect_same("four replicas", &trace, &four);
    if (close) {
        expect_close("two replicas", &pair, &one);
        expect_close("four replicas", &four, &one);
    }
    assert_string_not_equal(pair.losses[0], pair.losses[2]);
}

static void test_gpt(void **state)
{
    (void)state;
    check_model("replicas_gpt", bits_gpt, true);
}

static void test_resnet(void **state)
{
    (void)state;
    check_model("replicas_resnet", bits_resnet, false);
}

static void test_mmt(void **state)
{
    (void)state;
    check_model("replicas_mmt", bits_mmt, true);
}

static void test_mlp(void **state)
{
    (void)state;
    check_model("replicas_mlp", mlp, true);
}

/* Neighbours of different widths, and of different micro-batches besides. */
static void test_mixed(void **state)
{
    static const char *const chains[] = {
        "partitioner={use=\"manual\",stages=\"wte,drop,h.0.*;*\",replicas=[1,4]}",
        "partitioner={use=\"manual\",stages=\"wte,drop,h.0.*;*\",replicas=[4,1]}",
        "partitioner={use=\"manual\",stages=\"wte,drop,h.0.*;h.1.*;*\",replicas=[2,1,4]}",
        "partitioner={use=\"manual\",stages=\"wte,drop,h.0.*;h.1.*;*\",replicas=[4,2,1]}",
    };
    const char *path = bits_config("replicas_mixed", bits_gpt);
    struct trace one, trace;

    (void)state;
    bits_train(path, (const char *const[]){WIDE, NULL}, &one);
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        bits_train(path,
                   (const char *const[]){WIDE, "train.degrees=[1,2,4]", "cluster.devices=7",
                                         "scheduler.use=1f1b", chains[i], NULL},
                   &trace);
        expect_close(chains[i], &trace, &one);
    }
    path = bits_config("replicas_branches", bits_mmt);
    bits_train(path, (const char *const[]){WIDE, NULL}, &one);
    bits_train(path,
               (const char *const[]){
                   "train.degrees=[1,2,3]", "cluster.devices=8", "scheduler.use=per-stage",
                   "partitioner={use=\"manual\",stages=\"branch.0.*;branch.1.*;branch.2.*;*\","
                   "microbatch_sizes=[2,6,4,3],replicas=[1,2,2,3]}",
                   NULL},
               &trace);
    expect_close("branches", &trace, &one);
}

/* The delayed rule: drains and depth change no bit. */
static void test_delayed(void **state)
{
    static const char *const sets[][3] = {{"cluster.devices=2", "train.drain_every=1"},
                                          {"cluster.devices=4", "train.clip=0.5"},
                                          {"cluster.devices=4", "train.drain_every=2"},
                                          {"cluster.devices=8", "memopt.use=full"}};
    const char *path = bits_config("replicas_delayed", bits_gpt);
    struct trace first, trace;

    (void)state;
    bits_train(path,
               (const char *const[]){WIDE, "train.batch=16", "train.degrees=[2]",
                                     "scheduler.use=2bw", "cluster.devices=2", "train.steps=5",
                                     NULL},
               &first);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        bits_train(path,
                   (const char *const[]){WIDE, "train.batch=16", "train.degrees=[2]",
                                         "scheduler.use=2bw", "train.steps=5", sets[i][0],
                                         sets[i][1], NULL},
                   &trace);
        bits_expect_same(sets[i][1], &trace, &first);
    }
}

/* Evaluation and generated text, behind steps and at the end. */
static void test_evaluation(void **state)
{
    const char *path = bits_config("replicas_evaluation", bits_gpt);
    struct trace first, trace;

    (void)state;
    bits_train(path,
               (const char *const[]){WIDE, "train.degrees=[2]", "cluster.devices=2",
                                     "train.eval_every=1", "train.eval_batches=2",
                                     "train.sample=20", NULL},
               &first);
    assert_int_equal(first.n_evals, 3);
    assert_int_equal(strlen(first.sample) >= 20, 1);
    bits_train(path,
               (const char *const[]){WIDE, "train.degrees=[2]", "cluster.devices=8",
                                     "scheduler.use=1f1b", "train.eval_every=1",
                                     "train.eval_batches=2", "train.sample=20", NULL},
               &trace);
    bits_expect_same("evaluation", &trace, &first);
}

/* --- plan files -------------------------------------------------------------------------------
 */

/* Takes the first instruction of this kind out of a list. */
static void drop(json_t *plan, size_t device, const char *op)
{
    json_t *body =
        json_object_get(json_array_get(json_object_get(plan, "devices"), device), "body");
    json_t *instr;
    size_t i;

    json_array_foreach(body, i, instr)
    {
        if (strcmp(json_string_value(json_array_get(instr, 0)), op) == 0) {
            /* a pass of nothing in its place would need a micro-batch; so what waits, waits no more
             */
            for (size_t k = i + 1; k < json_array_size(body); k++) {
                json_t *other = json_array_get(body, k);
                json_t *last = json_array_get(other, json_array_size(other) - 1);
                json_t *list = json_object_get(last, "waits");

                for (size_t w = json_array_size(list); w-- > 0;) {
                    json_int_t at = json_integer_value(json_array_get(list, w));

                    if (at == (json_int_t)i) {
                        json_array_remove(list, w);
                    } else if (at > (json_int_t)i) {
                        json_array_set_new(list, w, json_integer(at - 1));
                    }
                }
                if (list != NULL && json_array_size(list) == 0) {
                    json_array_remove(other, json_array_size(other) - 1);
                }
            }
            json_array_remove(body, i);
            return;
        }
    }
    fail_msg("no %s on device %zu", op, device);
}

static void expect_violation(const json_t *plan, const char *file, const char *rule)
{
    struct outcome outcome;

    assert_int_equal(json_dump_file(plan, file, 0), 0);
    outcome = support_run((const char *const[]){"check", file, NULL});
    expect_code(&outcome, 1);
    if (strstr(outcome.out, rule) == NULL && strstr(outcome.err, rule) == NULL) {
        fail_msg("%s is missing in: %s%s", rule, outcome.out, outcome.err);
    }
    outcome_finish(&outcome);
}

static void test_plan_file(void **state)
{
    const char *path = bits_config("replicas_file", bits_gpt);
    const char *const sets[] = {WIDE, "train.degrees=[1,2]", "cluster.devices=5",
                                "scheduler.use=1f1b",
                                "partitioner={use=\"manual\",stages=\"wte,drop,h.0.*;h.1.*;*\","
                                "replicas=[2,1,2]}"};
    const char *args[24] = {"plan", path, "-o"};
    char file[256], broken[256], from_file[300];
    struct trace direct, read;
    struct outcome outcome;
    json_t *plan, *devices;

    (void)state;
    snprintf(file, sizeof file, "%s", support_path("replicas_plan.json"));
    snprintf(broken, sizeof broken, "%s", support_path("replicas_broken.json"));
    args[3] = file;
    for (uint32_t i = 0; i < 5; i++) {
        args[4 + 2 * i] = "--set";
        args[5 + 2 * i] = sets[i];
    }
    outcome = support_run(args);
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
    outcome = support_run((const char *const[]){"check", file, NULL});
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
    bits_train(path, (const char *const[]){sets[0], sets[1], sets[2], sets[3], sets[4], NULL},
               &direct);
    snprintf(from_file, sizeof from_file, "run.plan=%s", file);
    bits_train(path,
               (const char *const[]){sets[0], sets[1], sets[2], sets[3], sets[4], from_file, NULL},
               &read);
    bits_expect_same("from its file", &read, &direct);

    plan = json_load_file(file, 0, NULL);
    drop(plan, 1, "REDUCE");
    expect_violation(plan, broken, "PASS4");
    json_decref(plan);
    plan = json_load_file(file, 0, NULL);
    devices = json_object_get(json_array_get(json_object_get(plan, "stages"), 0), "devices");
    json_array_set_new(devices, 0, json_integer(1)); /* each replica has the other's samples */
    json_array_set_new(devices, 1, json_integer(0));
    expect_violation(plan, broken, "COMM1");
    json_array_set_new(devices, 0, json_integer(0)); /* a group that another stage is in */
    json_array_set_new(devices, 1, json_integer(2));
    expect_violation(plan, broken, "PART3");
    json_decref(plan);
}

/* --- what cannot be had ----------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    static const struct {
        const char *sets[5], *message;
    } cases[] = {
        {{"train.degrees=[0]"}, "different numbers of replicas from 1 on"},
        {{"train.degrees=[2,2]"}, "different numbers of replicas from 1 on"},
        {{"train.degrees=[1.5]"}, "must be different numbers of replicas from 1 on"},
        {{"train.degrees=[5]"}, "5 replicas cannot share batch = 12"},
        {{"train.degrees=[4]", "cluster.devices=2"}, "at least 4 replicas of every stage"},
        {{"train.degrees=[2]", "cluster.devices=3"}, "must divide the 3 devices"},
        {{"train.degrees=[3]", "cluster.devices=3"}, "train.microbatch = 2"},
        {{"partitioner={use=\"manual\",stages=\"*\",replicas=[2]}", "cluster.devices=2"},
         "train.degrees allows one"},
        {{"partitioner={use=\"manual\",stages=\"*\",replicas=[2]}", "train.degrees=[1,3]",
          "cluster.devices=3"},
         "train.degrees does not list that number"},
        {{"partitioner={use=\"manual\",stages=\"*\",replicas=[3]}", "train.degrees=[1,3]",
          "cluster.devices=3"},
         "cannot share the micro-batches of stage 0, 2 samples"},
        {{"partitioner={use=\"manual\",stages=\"wte;*\",replicas=[2,2]}", "train.degrees=[1,2]",
          "cluster.devices=3"},
         "4 replicas in all for 3 devices"},
        {{"partitioner={use=\"manual\",stages=\"wte;*\",replicas=[2]}", "train.degrees=[1,2]"},
         "1 \"replicas\" for 2 \"stages\""},
    };
    const char *path = bits_config("replicas_refusals", bits_gpt);

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *args[14] = {"plan", path};
        struct outcome outcome;

        for (uint32_t k = 0; cases[i].sets[k] != NULL; k++) {
            args[2 + 2 * k] = "--set";
            args[3 + 2 * k] = cases[i].sets[k];
        }
        outcome = support_run(args);
        expect_code(&outcome, 2);
        if (strstr(outcome.err, cases[i].message) == NULL) {
            fail_msg("\"%s\" is missing in: %s", cases[i].message, outcome.err);
        }
        outcome_finish(&outcome);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt),        cmocka_unit_test(test_resnet),
        cmocka_unit_test(test_mmt),        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_mixed),      cmocka_unit_test(test_delayed),
        cmocka_unit_test(test_evaluation), cmocka_unit_test(test_plan_file),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, support_begin, support_end);
}
