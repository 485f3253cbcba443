/* SPDX-License-Identifier: Apache-2.0
 *
 * In-flight counts of a scheduler that does not tell: counted on a unit chain they are those that
 * the same scheduler tells. And what earlier attempts counted is the least.
 */
#include "planner/held.h"
#include "planner/state.h"
#include "plugin_rig.h"

#include "test.h"

static void planner_init(struct pst_planner *planner, const char *scheduler, const char *options)
{
    static uint32_t counted[16];
    static struct pst_graph_view view = {.n_nodes = 16};
    const struct pst_host_context context = {0};
    struct pst_error err;

    memset(planner, 0, sizeof *planner);
    memset(counted, 0, sizeof counted);
    planner->view = &view;
    planner->attempt.counted = counted;
    planner->devices.n_logical = 8;
    assert_ok(plugin_rig_open("scheduler", scheduler, options, &context,
                              &planner->strategies.scheduler, &err),
              &err);
}

static void planner_finish(struct pst_planner *planner)
{
    pst_arena_finish(&planner->arena);
    pst_instance_destroy(planner->strategies.scheduler);
}

/* A scheduler that does not tell, and how often it was asked for an order. */
static const struct pst_scheduler *spoken;
static uint32_t n_orders;

static pst_status schedule(void *self, const struct pst_schedule_in *in,
                           struct pst_schedule_out *out)
{
    n_orders++;
    return spoken->schedule(self, in, out);
}

static const void *silent_interface(const char *id)
{
    static struct pst_scheduler silent;

    silent = *spoken;
    silent.in_flight = NULL;
    silent.schedule = schedule;
    return strcmp(id, PST_SCHEDULER) == 0 ? &silent : NULL;
}

static void silence(struct pst_planner *planner)
{
    static struct pst_plugin silent;

    spoken = planner->strategies.scheduler->plugin->get_interface(PST_SCHEDULER);
    silent = *planner->strategies.scheduler->plugin;
    silent.get_interface = silent_interface;
    planner->strategies.scheduler->plugin = &silent;
}

static uint32_t held(struct pst_planner *planner, uint32_t stage, uint32_t n_stages, uint32_t m)
{
    struct pst_place place = {
        .size = sizeof place,
        .stage = stage,
        .n_stages = n_stages,
        .n_devices = planner->devices.n_logical,
        .n_microbatches = m,
        .microbatch_size = 1,
        .k = 1,
    };
    struct pst_held answer = {.size = sizeof answer};
    struct pst_error err;

    assert_ok(pst_planner_held(planner, &place, &answer, &err), &err);
    assert_int_equal(answer.weight_versions, 1);
    return answer.microbatches;
}

TEST(test_counting_agrees_with_telling)
{
    static const char *const schedulers[][2] = {
        {"gpipe", ""}, {"1f1b", ""}, {"1f1b", "eager = true"}, {"1f1b", "split = true"}};

    for (size_t i = 0; i < sizeof schedulers / sizeof schedulers[0]; i++) {
        FINISHED_BY(planner_finish) struct pst_planner planner;
        const struct pst_plugin *loud;

        planner_init(&planner, schedulers[i][0], schedulers[i][1]);
        loud = planner.strategies.scheduler->plugin;
        for (uint32_t n = 1; n <= 6; n++) {
            for (uint32_t m = 1; m <= 13; m += 3) {
                for (uint32_t s = 0; s < n; s++) {
                    uint32_t told = held(&planner, s, n, m);

                    silence(&planner);
                    assert_int_equal(held(&planner, s, n, m), told);
                    planner.strategies.scheduler->plugin = loud;
                }
            }
        }
    }
}

TEST(test_what_was_counted_is_the_least)
{
    FINISHED_BY(planner_finish) struct pst_planner planner;

    planner_init(&planner, "1f1b", "");
    assert_int_equal(held(&planner, 1, 4, 8), 3);
    planner.attempt.counted[1] = 5;
    assert_int_equal(held(&planner, 1, 4, 8), 5);
    planner.attempt.counted[1] = 2;
    assert_int_equal(held(&planner, 1, 4, 8), 3);
}

/* One order says what all stages hold, and what of it is late; asked again it is not made again. */
TEST(test_one_order_for_all_stages)
{
    FINISHED_BY(planner_finish) struct pst_planner planner;
    struct pst_error err;
    bool splits = true;

    planner_init(&planner, "zb-h1", "");
    silence(&planner);
    planner.sizes.batch = 8;
    n_orders = 0;
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t s = 0; s < 4; s++) {
            assert_int_equal(held(&planner, s, 4, 8), 4);
        }
        assert_int_equal(pst_planner_splits(&planner, 4, 8, &splits, &err), PST_OK);
        assert_true(splits);
    }
    assert_int_equal(n_orders, 1);
    assert_int_equal(held(&planner, 1, 4, 3), 3);
    assert_int_equal(n_orders, 2);
}

/*
 * ZB-H1 on p devices: all hold p micro-batches, of which device d has p - d before their B, as in
 * 1F1B, and d that wait for W. In ZB-H2 2p - 1, 2(p - d) - 1 of them before B. 1F1B has no W.
 */
TEST(test_late)
{
    static const struct {
        const char *id;
        uint32_t late; /* of each device behind the first */
    } rows[] = {{"zb-h1", 1}, {"zb-h2", 2}, {"1f1b", 0}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        FINISHED_BY(planner_finish) struct pst_planner planner;
        struct pst_error err;

        planner_init(&planner, rows[i].id, "");
        for (uint32_t p = 1; p <= 8; p++) {
            const struct pst_place place = {.size = sizeof place,
                                            .n_stages = p,
                                            .n_devices = p,
                                            .n_microbatches = 4 * p,
                                            .microbatch_size = 1,
                                            .k = 1};
            const struct pst_scheduler_count *count;

            assert_int_equal(pst_planner_count(&planner, &place, &count, &err), PST_OK);
            assert_int_equal(count->status, PST_OK);
            assert_int_equal(count->split, rows[i].late > 0);
            for (uint32_t d = 0; d < p; d++) {
                assert_int_equal(count->late[d], rows[i].late * d);
            }
        }
    }
}
