/* SPDX-License-Identifier: Apache-2.0
 *
 * Curves of memory on random legal plans, held against the programs they come from.
 */
#include "sim/sim.h"

#include "unit/prove/async_rig.h"

OWNER(timeline)

static uint64_t sum(const struct pst_memory_point *point)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < PST_MEM_KINDS; k++) {
        bytes += point->bytes[k];
    }
    return bytes;
}

/* Bytes alive in one tick, counted afresh. */
static uint64_t live_at(const struct pst_program *program, uint32_t tick, bool static_only)
{
    uint64_t bytes = 0;
    for (uint32_t v = 0; v < program->n_values; v++) {
        const struct pst_value *value = &program->values[v];
        if (value->first <= tick && tick <= value->last && (value->is_static || !static_only)) {
            bytes += value->bytes;
        }
    }
    return bytes;
}

/* Most that is alive in the ticks of one instruction; *tick moves behind it. */
static uint64_t most_in(const struct pst_program *program, uint32_t i, uint32_t *tick)
{
    uint32_t n = program->lists[i].n_calls > 0 ? program->lists[i].n_calls : 1;
    uint64_t most = 0;
    for (uint32_t t = 0; t < n; t++) {
        uint64_t bytes = live_at(program, (*tick)++, false);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* The fullest point between two times, the one before them that is still in force included. */
static uint64_t most_between(const struct pst_timeline_rank *row, uint64_t from, uint64_t to)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < row->n_points; i++) {
        bool over = i + 1 < row->n_points && row->points[i + 1].ns <= from;
        if (row->points[i].ns <= to && !over) {
            most = sum(&row->points[i]) > most ? sum(&row->points[i]) : most;
        }
    }
    return most;
}

static void hold_against(const struct rig *rig, const struct pst_timeline *timeline, uint32_t d,
                         uint32_t n_steps)
{
    const struct pst_timeline_rank *row = &timeline->ranks[d];
    const struct pst_program *program = rig->programs[d];
    uint64_t fixed = live_at(program, 0, true);
    uint32_t tick = 0;
    assert_int_equal(row->peak_bytes, program->peak_bytes);
    assert_int_equal(row->peak_bytes, rig->plan->devices[d].peak_bytes);
    for (uint32_t i = 0; i < row->n_points; i++) {
        assert_true(i == 0 || row->points[i - 1].ns < row->points[i].ns);
        assert_true(sum(&row->points[i]) >= fixed);
    }
    assert_int_equal(sum(&row->points[row->n_points - 1]), fixed);
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        uint64_t most = most_in(program, i, &tick);
        for (uint32_t s = row->first; s < row->first + row->n_spans; s++) {
            const struct pst_span *span = &timeline->spans[s];
            if (span->instr == i && span->lane == PST_LANE_COMPUTE) {
                assert_true(most_between(row, span->start_ns, span->end_ns) >= most);
            }
        }
    }
    assert_int_equal(row->n_spans, n_steps * program->n_instrs);
}

TEST(random_plans)
{
    FINISHED_BY(rig_close) struct rig rig;
    const struct pst_cluster no_time = {.devices = RIG_MAX};
    uint32_t n_sums = 0, n_gathers = 0; /* plans that sum gradients, gather weights inside passes */
    struct pst_error err = {0};
    rig_open(&rig, "gpt", "layers=2 dim=8 heads=2 context=4 vocab=7", 99);
    print_message("seed 99\n");
    for (uint32_t i = 0; i < 90; i++) {
        struct rig_shape shape = rig_draw_shape(&rig);
        uint32_t n_steps = 1 + i % 3;
        struct pst_timeline *timeline = NULL;
        struct pst_sim_result result;
        shape.zero = shape.replicas ? rig_draw(&rig, 4) : 0;
        shape.prefetch = shape.zero >= 2 ? i % 3 : 0;
        n_sums += shape.zero == 2;
        n_gathers += shape.zero == 3;
        rig_plan(&rig, &shape);
        if (i % 4 == 0) { /* all in no time: whatever is alive for no time at all still shows */
            rig.cost.cluster = &no_time;
        }
        assert_ok(pst_sim_timeline(rig.plan, rig.graph, &rig.cost, n_steps, 0,
                                   (const struct pst_program *const *)rig.programs, &timeline,
                                   &result, &err),
                  &err);
        rig.cost.cluster = &rig.cluster;
        for (uint32_t d = 0; d < rig.plan->n_devices; d++) {
            if (i % 4 == 0) {
                assert_int_equal(timeline->ranks[d].peak_bytes, rig.programs[d]->peak_bytes);
            } else {
                hold_against(&rig, timeline, d, n_steps);
            }
        }
        pst_timeline_destroy(timeline);
        rig_drop_plan(&rig);
    }
    assert_true(n_sums > 5 && n_gathers > 5);
}

/* With a core for each device nobody takes turns: times and curves are those without cores. */
TEST(cores_for_all)
{
    FINISHED_BY(rig_close) struct rig rig;
    struct pst_error err = {0};
    uint32_t n = 0;
    rig_open(&rig, "gpt", "layers=2 dim=8 heads=2 context=4 vocab=7", 5);
    for (uint32_t i = 0; i < 60; i++) {
        struct rig_shape shape = rig_draw_shape(&rig);
        struct pst_timeline *lines[2] = {NULL, NULL};
        struct pst_sim_result results[2];
        shape.zero = shape.replicas ? 2 + i % 2 : 0;
        shape.prefetch = shape.replicas;
        n += shape.replicas;
        rig_plan(&rig, &shape);
        for (uint32_t k = 0; k < 2; k++) {
            rig.cost.side_by_side = k * rig.plan->n_devices;
            assert_ok(pst_sim_timeline(rig.plan, rig.graph, &rig.cost, 2, 0,
                                       (const struct pst_program *const *)rig.programs, &lines[k],
                                       &results[k], &err),
                      &err);
        }
        assert_int_equal(results[0].total_ns, results[1].total_ns);
        for (uint32_t d = 0; d < rig.plan->n_devices; d++) {
            const struct pst_timeline_rank *a = &lines[0]->ranks[d], *b = &lines[1]->ranks[d];
            assert_int_equal(a->n_points, b->n_points);
            for (uint32_t p = 0; p < a->n_points; p++) {
                assert_int_equal(a->points[p].ns, b->points[p].ns);
                assert_int_equal(sum(&a->points[p]), sum(&b->points[p]));
            }
        }
        rig.cost.side_by_side = 0;
        rig_drop_plan(&rig);
        for (uint32_t k = 0; k < 2; k++) {
            pst_timeline_destroy(lines[k]);
        }
    }
    assert_true(n > 15);
}

/* What is alive all the time. */
static uint64_t lasting(const struct pst_program *program)
{
    uint64_t bytes = 0;
    for (uint32_t v = 0; v < program->n_values; v++) {
        const struct pst_value *value = &program->values[v];
        bytes += value->is_static || value->period > 0 ? value->bytes : 0;
    }
    return bytes;
}

/* Most that is alive in any tick of a section. */
static uint64_t most_in_section(const struct pst_program *program, uint32_t s)
{
    uint32_t end =
        s + 1 < program->n_sections ? program->sections[s + 1].first_tick : program->n_ticks;
    uint64_t most = 0;
    for (uint32_t tick = program->sections[s].first_tick; tick < end; tick++) {
        uint64_t bytes = live_at(program, tick, false);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static uint64_t largest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Batches between drains walk fill, bodies and drain, each in the phase of its batch. */
static uint64_t most_of_batches(const struct pst_program *program, uint32_t n_batches,
                                uint32_t drain_every)
{
    uint32_t stretch = drain_every == 0 ? n_batches : drain_every;
    uint64_t most = 0;
    for (uint32_t b = 0; b < n_batches; b++) {
        uint32_t s = b % program->n_phases * PST_PARTS;
        bool last = b + 1 == n_batches || (b + 1) % stretch == 0;
        if (b % stretch == 0) {
            most = largest(most, most_in_section(program, s + PST_FILL));
        }
        most = largest(most, most_in_section(program, s + (last ? PST_DRAIN : PST_BODY)));
    }
    return most;
}

TEST(asynchronous_plans)
{
    FINISHED_BY(rig_close) struct rig rig;
    uint32_t n_phased = 0;
    rig_open(&rig, "gpt", "layers=2 dim=8 heads=2 context=4 vocab=7", 5);
    for (uint32_t i = 0; i < 24; i++) {
        struct async_shape shape = {
            .p = 1 + i % 4, .m = 4 + i / 4 % 3, .size = 1 + i % 2, .barrier = i % 3 == 0};
        struct pst_error err = {0};
        assert_true(async_plan(&rig, &shape));
        rig.plan->drain_every = i / 2 % 4;
        rig_programs(&rig);
        for (uint32_t n = 1; n <= 5; n++) {
            OWN(timeline) *timeline = NULL;
            struct pst_sim_result result;
            assert_ok(pst_sim_timeline(rig.plan, rig.graph, &rig.cost, n, 0,
                                       (const struct pst_program *const *)rig.programs, &timeline,
                                       &result, &err),
                      &err);
            for (uint32_t d = 0; d < shape.p; d++) {
                const struct pst_timeline_rank *row = &timeline->ranks[d];
                assert_int_equal(row->peak_bytes,
                                 most_of_batches(rig.programs[d], n, rig.plan->drain_every));
                assert_int_equal(sum(&row->points[row->n_points - 1]), lasting(rig.programs[d]));
                n_phased += rig.programs[d]->n_phases > 1;
            }
        }
        rig_drop_plan(&rig);
    }
    assert_true(n_phased > 0);
}
