/* SPDX-License-Identifier: Apache-2.0
 *
 * The plans that fidelity_test compares: every scheduler on 2, 4 and 8 devices, with settings that
 * suit it; replicas. Include commands.h before.
 */
#ifndef PENSTOCK_TESTS_FIDELITY_CASES_H
#define PENSTOCK_TESTS_FIDELITY_CASES_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

enum { MAX_CASES = 128, MAX_SETS = 6 };

static const char common[] = "[model]\nuse = \"gpt\"\nlayers = 12\ndim = 512\nheads = 8\n"
                             "context = 256\nvocab = 8000\n"
                             "[train]\nmicrobatch = 1\noptimizer = \"adamw\"\n"
                             "[run]\ndevice = \"emulated\"\ndtype = \"bf16\"\n"
                             "[cluster]\nflops = 5e12\nbf16_flops = 20e12\n"
                             "memory_bandwidth = \"600 GB/s\"\nlaunch_overhead = \"5 us\"\n"
                             "link_bandwidth = \"6 GB/s\"\nlink_latency = \"15 us\"\n"
                             "[partitioner]\nuse = \"chain-dp\"\n";

/* How to ask schedulers that need to be asked in their own way; all others: their id is enough. */
enum kind {
    PLAIN,
    SMALL,    /* it searches: four micro-batches */
    BRANCHES, /* a graph of stages with micro-batches of different sizes */
    ALONE     /* each stage updates on its own: no clipping, no tied weights */
};

static const struct {
    const char *id, *options;
    enum kind kind;
} special[] = {
    {"per-stage", "", PLAIN},
    {"per-stage", "", BRANCHES},
    {"1f1b", "split=true", PLAIN},
    {"1f1b", "", PLAIN},
    {"interleaved", "chunks=3", PLAIN},
    {"v-adaptive", "effort=0", PLAIN},
    {"optimal", "max_nodes=300000", SMALL},
    {"csv", "", PLAIN},
    {"pipedream", "", ALONE},
};

struct fidelity_case {
    char label[96];
    char sets[MAX_SETS][256];
    uint32_t n_sets;
    uint32_t p;
    char plan[160], trace[160];
    bool synchronous;
    double predicted_us, scale; /* what the simulator says; of the next try */
    double measured_us, error;  /* of the best try */
    uint32_t tries;
    json_t *planned_bytes, *peak_bytes; /* of every device */
};

static struct fidelity_case cases[MAX_CASES];
static uint32_t n_cases;
static char config[160];

static void add_set(struct fidelity_case *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add_set(struct fidelity_case *c, const char *format, ...)
{
    va_list list;

    assert_true(c->n_sets < MAX_SETS);
    va_start(list, format);
    assert_true((size_t)vsnprintf(c->sets[c->n_sets++], sizeof c->sets[0], format, list) <
                sizeof c->sets[0]);
    va_end(list);
}

static struct fidelity_case *new_case(const char *id, const char *options, uint32_t p)
{
    struct fidelity_case *c = &cases[n_cases];
    char name[32];

    assert_true(n_cases < MAX_CASES);
    *c = (struct fidelity_case){.p = p, .error = INFINITY, .synchronous = true};
    snprintf(c->label, sizeof c->label, "%s%s%s, %u devices", id, options[0] ? " " : "", options,
             p);
    snprintf(name, sizeof name, "plan%u", n_cases);
    snprintf(c->plan, sizeof c->plan, "%s.json", support_path(name));
    snprintf(c->trace, sizeof c->trace, "%s.trace.json", support_path(name));
    add_set(c, "cluster.devices=%u", p);
    add_set(c, "scheduler={use=\"%s\"%s%s}", id, options[0] ? "," : "", options);
    n_cases++;
    return c;
}

/* p - 1 branches side by side, and a stage behind them that takes twice the samples at once. */
static void set_branches(struct fidelity_case *c)
{
    char stages[160] = "", sizes[64] = "";

    for (uint32_t i = 0; i + 1 < c->p; i++) {
        snprintf(stages + strlen(stages), sizeof stages - strlen(stages), "branch.%u.*; ", i);
        strcat(sizes, "1, ");
    }
    strcat(c->label, ", branches");
    add_set(c, "train.batch=%u", 4 * c->p);
    add_set(c,
            "model={use=\"mmt\",branches=%u,layers=2,dim=512,heads=8,context=128,"
            "vocab=8000}",
            c->p - 1);
    add_set(c, "partitioner={use=\"manual\",stages=\"%s*\",microbatch_sizes=\"%s2\"}", stages,
            sizes);
}

/* The order of another scheduler comes back from a file. */
static void read_csv(struct fidelity_case *c)
{
    char file[200];
    struct outcome outcome;

    snprintf(file, sizeof file, "%s.csv", c->plan);
    outcome = penstock("export", "pytorch-csv", config, "-o", file, "--json", "--set", c->sets[0],
                       "--set", c->sets[2], "--set", "scheduler={use=\"interleaved\",chunks=2}");
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
    snprintf(c->sets[1], sizeof c->sets[1], "scheduler={use=\"csv\",file=\"%s\"}", file);
}

static void add_case(const char *id, const char *options, enum kind kind, uint32_t p)
{
    struct fidelity_case *c = new_case(id, options, p);

    if (kind == BRANCHES) {
        set_branches(c);
    } else {
        add_set(c, "train.batch=%u", kind == SMALL ? 4 : 2 * p);
    }
    if (kind == ALONE) {
        add_set(c, "train.clip=0");
        add_set(c, "model.tied=false");
    }
    if (strcmp(id, "csv") == 0) {
        read_csv(c);
    }
}

static void add_scheduler(const char *id, uint32_t most_devices)
{
    for (uint32_t p = 2; p <= most_devices; p *= 2) {
        bool is_special = false;

        for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
            if (strcmp(special[i].id, id) == 0) {
                add_case(id, special[i].options, special[i].kind, p);
                is_special = true;
            }
        }
        if (!is_special) {
            add_case(id, "", PLAIN, p);
        }
    }
}

/* What lies in host memory from one batch to the next, over a link that passes wait for. */
static void add_offload(void)
{
    struct fidelity_case *c = new_case("2bw", "", 4);

    strcat(c->label, ", offload");
    add_set(c, "train.batch=8");
    add_set(c, "memopt={use=\"offload\",when=\"always\"}");
    add_set(c, "cluster.host_bandwidth=2e9");
}

/* Sums over replicas: behind the last pass, next to the passes of other chunks, in the steady state
   of an asynchronous schedule; between stages of different widths. */
static void add_replicas(void)
{
    static const struct {
        const char *id, *options, *partitioner, *degrees;
        uint32_t p, microbatch, batch;
    } rows[] = {
        {"gpipe", "", "uniform\"", "[2]", 2, 2, 8},
        {"1f1b", "", "chain-dp\"", "[2]", 4, 2, 12},
        {"interleaved", "chunks=3", "chain-dp\"", "[2]", 4, 2, 12},
        {"2bw", "", "chain-dp\"", "[2]", 8, 2, 24},
        {"1f1b", "", "manual\",stages=\"wte,drop,h.[0-2].*;h.[3-8].*;*\",replicas=[2,4,2]", "[2,4]",
         8, 4, 32},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fidelity_case *c = new_case(rows[i].id, rows[i].options, rows[i].p);

        strcat(c->label, ", replicas");
        add_set(c, "train.batch=%u", rows[i].batch);
        add_set(c, "train.microbatch=%u", rows[i].microbatch);
        add_set(c, "train.degrees=%s", rows[i].degrees);
        add_set(c, "partitioner={use=\"%s}", rows[i].partitioner);
    }
}

#endif
