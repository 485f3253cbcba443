/* SPDX-License-Identifier: Apache-2.0
 *
 * pipedream-2bw against every configuration and every cut, computed a second time here; and what
 * must hold whatever the problem is.
 */
#include "test.h"

#include "../chain_rig.h"

static uint64_t state_;

static uint32_t draw(uint32_t low, uint32_t high)
{
    state_ = state_ * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return low + (uint32_t)(state_ >> 33) % (high - low + 1);
}

/* A problem in us and bytes. */
struct chain {
    uint32_t n, devices, server, batch;
    double us[3][16];                      /* of sizes 1, 2, 4 */
    double weight[16], saved[16], out[16]; /* out[v]: message of v to v + 1 */
    double capacity, high, low, kappa, extra;
    bool idle, equal;
};

static const uint32_t sizes[] = {1, 2, 4};

/* Time of the stages at cuts, and the most memory; INFINITY where a stage does not fit. kind: 0
   pipeline, 1 recomputing, 2 none. */
static double cut_us(const struct chain *p, uint32_t w, uint32_t d, uint32_t i, int kind,
                     const uint32_t *cuts)
{
    double b = sizes[i], m = p->batch / (w * b), slowest = 0, sum = 0;
    double pipe = w * d <= p->server ? p->high : p->low, ring = w <= p->server ? p->high : p->low;

    for (uint32_t s = 0; s < d; s++) {
        double us = 0, weight = 0, saved = 0, in = s == 0 ? 0 : p->out[cuts[s] - 1];
        double out = s + 1 == d ? 0 : p->out[cuts[s + 1] - 1], bytes, held = kind == 2 ? 1 : d - s;

        for (uint32_t v = cuts[s]; v < cuts[s + 1]; v++) {
            us += p->us[i][v];
            weight += p->weight[v];
            saved += p->saved[v];
        }
        if (p->equal) { /* the worst stage stands for all */
            held = kind == 2 ? 1 : d;
            in = out = p->out[0];
        }
        bytes = (kind == 2 ? 1 : 2) * weight + (kind == 0 ? held : 1) * saved * b + held * in * b;
        if (bytes > p->capacity * (1 + 1e-9)) {
            return INFINITY;
        }
        us = us * (kind == 1 ? p->extra : 1) + (d == 1 ? 0 : 2 * (in + out) * b / pipe);
        us = fmax(us, (w == 1 ? 0 : p->kappa * (w - 1) / w * weight / ring) / m);
        slowest = fmax(slowest, us);
        sum += us;
    }
    return kind == 2 ? sum : slowest;
}

static double best_cut_us(const struct chain *p, uint32_t w, uint32_t d, uint32_t i, int kind)
{
    uint32_t cuts[17];
    double best = INFINITY;

    for (uint32_t s = 0; s <= d; s++) {
        cuts[s] = p->equal ? p->n / d * s : s == d ? p->n : s;
    }
    if (p->equal) {
        return cut_us(p, w, d, i, kind, cuts);
    }
    for (;;) {
        uint32_t s = d;

        best = fmin(best, cut_us(p, w, d, i, kind, cuts));
        while (--s > 0 && s < d && cuts[s] + (d - s) >= p->n) {
        }
        if (s == 0 || s >= d) {
            return best;
        }
        for (cuts[s]++; s + 1 < d; s++) {
            cuts[s + 1] = cuts[s] + 1;
        }
    }
}

/* Samples per us of the best of all configurations; 0: none. */
static double best_rate(const struct chain *p)
{
    double best = 0;

    for (uint32_t w = 1; w <= p->devices; w++) {
        for (uint32_t d = 1; d <= p->n && w * d <= p->devices; d++) {
            if ((!p->idle && w * d != p->devices) || (p->equal && p->n % d != 0)) {
                continue;
            }
            for (uint32_t i = 0; i < 3; i++) {
                for (int kind = 0; kind < 3; kind++) {
                    if (p->batch % (w * sizes[i]) != 0 ||
                        (kind != 2 && (d == 1 || p->batch / (w * sizes[i]) < d))) {
                        continue;
                    }
                    best = fmax(best, w * sizes[i] / best_cut_us(p, w, d, i, kind));
                }
            }
        }
    }
    return best;
}

static void random_chain(struct chain *p, bool equal)
{
    *p = (struct chain){.n = draw(2, 7),
                        .devices = draw(1, 8),
                        .batch = 1u << draw(2, 5),
                        .capacity = draw(8, 90),
                        .high = draw(4, 20),
                        .low = draw(1, 4),
                        .kappa = draw(1, 4),
                        .extra = 1 + draw(0, 4) / 4.,
                        .idle = draw(0, 1) == 1,
                        .equal = equal};
    p->server = draw(1, p->devices);
    for (uint32_t v = 0; v < p->n; v++) {
        p->weight[v] = draw(0, 8);
        p->saved[v] = draw(0, 6);
        p->out[v] = draw(0, 3);
        p->us[0][v] = draw(2, 9);
        p->us[1][v] = p->us[0][v] + draw(1, 9);
        p->us[2][v] = p->us[1][v] + draw(1, 18);
        if (equal) {
            p->weight[v] = p->weight[0];
            p->saved[v] = p->saved[0];
            p->out[v] = p->out[0];
            for (int i = 0; i < 3; i++) {
                p->us[i][v] = p->us[i][0];
            }
        }
    }
}

static double ask(struct chain_rig *s, const struct chain *p, uint32_t only,
                  struct pst_partition_result *ret_result)
{
    struct pst_error err;
    char options[256];

    chain_init(s, p->n);
    for (uint32_t v = 0; v < p->n; v++) {
        s->nodes[v].n_times = 3;
        s->nodes[v].times = s->times[v];
        s->nodes[v].param_bytes = p->weight[v];
        s->nodes[v].saved_bytes = p->saved[v];
        for (int i = 0; i < 3; i++) {
            s->times[v][i] = (struct pst_costed_times){
                .samples = sizes[i],
                .ns = {p->us[i][v] * 250, p->us[i][v] * 500, p->us[i][v] * 250}};
        }
        if (v > 0) {
            s->edges[v - 1].bytes = p->out[v - 1];
        }
    }
    memcpy(s->sizes, only == 0 ? sizes : &only, (only == 0 ? 3 : 1) * sizeof *sizes);
    s->problem.n_micro_batches = only == 0 ? 3 : 1;
    s->problem.n_devices = p->devices;
    s->problem.mini_batch = p->batch;
    s->problem.memory_bytes = p->capacity;
    snprintf(options, sizeof options,
             "{\"node_size\":%u,\"bandwidth_high\":%.0f,\"bandwidth_low\":%.0f,"
             "\"allreduce_coefficient\":%g,\"c_extra\":%g,\"allow_idle\":%s,\"even\":%s}",
             p->server, p->high * 1e6, p->low * 1e6, p->kappa, p->extra, p->idle ? "true" : "false",
             p->equal ? "true" : "false");
    if (chain_ask(s, "pipedream-2bw", options, ret_result, &err) != PST_OK) {
        memset(ret_result, 0, sizeof *ret_result);
        return 0;
    }
    return chain_number(ret_result, "throughput_per_second") / 1e6;
}

TEST(test_every_configuration)
{
    static struct chain_rig s;
    uint32_t feasible = 0, n_kinds[3] = {0};

    state_ = 20210;
    for (int round = 0; round < 1200; round++) {
        struct pst_partition_result result;
        struct chain p;
        double expected, got;

        random_chain(&p, round % 3 == 0);
        expected = best_rate(&p);
        got = ask(&s, &p, 0, &result);
        if (fabs(expected - got) > 1e-9 * expected) {
            fail_msg("round %d: %.12g, expected %.12g", round, got, expected);
        }
        feasible += got > 0;
        if (got > 0) {
            bool pipeline = strcmp(chain_text(&result, "mode"), "pipeline") == 0;

            n_kinds[!pipeline ? 2 : chain_number(&result, "recompute") != 0]++;
            assert_true(chain_number(&result, "worst_stage_bytes") <= p.capacity * (1 + 1e-9));
            chain_close(chain_number(&result, "bottleneck_us_per_sample"), 1 / got);
            pst_partition_result_finish(&result);
        }
    }
    print_message("%u feasible: %u pipelines, %u recomputing, %u without\n", feasible, n_kinds[0],
                  n_kinds[1], n_kinds[2]);
    assert_true(feasible > 600 && n_kinds[0] > 50 && n_kinds[1] > 20 && n_kinds[2] > 50);
}

/* All divisors of 512 times ten sizes; with idle devices all pairs. Micro-batches of all pipelines
   together are at most the batch. */
TEST(test_large)
{
    static const uint32_t many[] = {1, 2, 4, 8, 16, 32, 64, 128};
    static double us[8][2];
    static struct chain_rig s;

    for (int i = 0; i < 8; i++) {
        us[i][0] = us[i][1] = 10 + many[i];
    }
    for (int idle = 0; idle < 2; idle++) {
        FINISHED_BY(pst_partition_result_finish) struct pst_partition_result result;
        struct pst_error err;

        chain_init(&s, 512);
        chain_blocks(&s, 8, many, us, 1e9, 1e6, 1e5);
        s.problem.n_devices = 512;
        s.problem.mini_batch = 65536;
        s.problem.memory_bytes = 40e9;
        s.problem.p2p_bandwidth = 1e11;
        assert_int_equal(chain_ask(&s, "pipedream-2bw",
                                   idle ? "{\"allow_idle\":true}" : "{\"allow_idle\":false}",
                                   &result, &err),
                         PST_OK);
        print_message("512 devices%s: %.0f configurations in %.6f s\n", idle ? ", some idle" : "",
                      chain_number(&result, "configurations"), result.search_seconds);
        assert_true(chain_number(&result, "configurations") >= (idle ? 1000 : 200));
    }
}
