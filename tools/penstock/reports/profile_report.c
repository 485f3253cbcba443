/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/profile_report.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/text.h"
#include "base/util.h"
#include "measure/others.h"
#include "reports/rows.h"
#include "reports/table.h"

/* Sums over operators, of one kind or of all (PST_OP_KINDS), for micro-batches of one size. */
struct sums {
    const char *kind; /* NULL: this is about the size */
    uint32_t n_ops, samples;
    double ns[3], all_ns, sample_ns, described_ns, flops, gflops;
    double worst_spread;          /* of operators that take a hundredth of these or more */
    double share, slower, spread; /* in per cent; described time over this; in per cent */
};

static bool is_of(const struct pst_graph *graph, uint32_t op, uint32_t kind)
{
    return kind == PST_OP_KINDS || graph->ops[op].kind == kind;
}

/* Returns the time of one operator by the description in [cluster], without the profile. */
static double described_ns(const struct pst_session *session, uint32_t op, uint32_t samples)
{
    struct pst_cost_model cost = session->cost;
    struct pst_times times;

    cost.profile = NULL;
    pst_cost_op(&cost, op, samples, &times);
    return (double)times.forward_ns + (double)times.backward_input_ns +
           (double)times.backward_weight_ns;
}

static struct sums add_up(const struct pst_session *session, const struct pst_profiled *profile,
                          uint32_t size, uint32_t kind)
{
    const struct pst_measured *measured = profile->measured[size];
    struct sums sums = {.samples = profile->sizes[size]};

    for (uint32_t o = 0; o < profile->n_ops; o++) {
        if (!is_of(session->graph, o, kind)) {
            continue;
        }
        sums.n_ops++;
        sums.described_ns += described_ns(session, o, profile->sizes[size]);
        for (uint32_t pass = 0; pass < 3; pass++) {
            double flops = 0, bytes = 0;

            pst_op_work(session->graph, o, pass, profile->sizes[size], &flops, &bytes);
            sums.flops += flops;
            sums.ns[pass] += measured[o].ns[pass];
            sums.all_ns += measured[o].ns[pass];
        }
    }
    for (uint32_t o = 0; o < profile->n_ops; o++) {
        for (uint32_t pass = 0; pass < 3 && is_of(session->graph, o, kind); pass++) {
            if (measured[o].ns[pass] * 100 >= sums.all_ns &&
                measured[o].spread[pass] > sums.worst_spread) {
                sums.worst_spread = measured[o].spread[pass];
            }
        }
    }
    sums.sample_ns = sums.all_ns / sums.samples;
    sums.gflops = sums.all_ns > 0 ? sums.flops / sums.all_ns : 0;
    return sums;
}

struct figures {
    struct sums *kinds, *sizes;
    uint32_t n_kinds, n_sizes;
    const char *model, *device, *notes, *file;
};

static void add_kind(struct figures *figures, const char *name, struct sums sums, double whole_ns)
{
    if (sums.n_ops == 0) {
        return;
    }
    sums.kind = name;
    sums.share = whole_ns > 0 ? 100 * sums.all_ns / whole_ns : 0;
    sums.slower = sums.all_ns > 0 ? sums.described_ns / sums.all_ns : 0;
    sums.spread = 100 * sums.worst_spread;
    figures->kinds[figures->n_kinds++] = sums;
}

static struct figures describe(const struct pst_session *session,
                               const struct pst_profiled *profile, const char *file,
                               struct pst_arena *arena)
{
    const uint32_t last = profile->n_sizes - 1;
    struct figures figures = {
        .kinds = pst_arena_array(arena, PST_OP_KINDS + 1, sizeof *figures.kinds),
        .sizes = pst_arena_array(arena, profile->n_sizes, sizeof *figures.sizes),
        .n_sizes = profile->n_sizes,
        .model = session->graph->name,
        .device = session->job->run.device,
        .notes = profile->graph->notes,
        .file = file,
    };
    double whole_ns;

    for (uint32_t i = 0; i < profile->n_sizes; i++) {
        figures.sizes[i] = add_up(session, profile, i, PST_OP_KINDS);
    }
    whole_ns = figures.sizes[last].all_ns;
    for (uint32_t kind = 0; kind < PST_OP_KINDS; kind++) {
        add_kind(&figures, pst_op_kind_name(kind), add_up(session, profile, last, kind), whole_ns);
    }
    add_kind(&figures, "all", figures.sizes[last], whole_ns);
    return figures;
}

enum { FIGURES, GRAPH, PROFILE };

#define OF_SUMS(kind, member) PST_ROW_AT(kind, PST_ROW_ENTRY, struct sums, member)
#define IF_KIND               PST_ROW_UNLESS(IF_ZERO, PST_ROW_ENTRY, struct sums, kind)
#define IF_SIZE               PST_ROW_UNLESS(IF_NOT_ZERO, PST_ROW_ENTRY, struct sums, kind)
static const struct pst_row sums_rows[] = {
    {NULL, NULL, OF_SUMS(TEXT, kind), IF_KIND, .title = "~operators"},
    {NULL, NULL, OF_SUMS(COUNT, n_ops), IF_KIND, .title = "6>number"},
    {"samples", "of a micro-batch", OF_SUMS(COUNT, samples), IF_SIZE, .title = ">samples"},
    {"forward_us", "of all operators", OF_SUMS(MEAN, ns[0]), .title = ">F"},
    {"backward_input_us", NULL, OF_SUMS(MEAN, ns[1]), .title = ">B"},
    {"backward_weight_us", NULL, OF_SUMS(MEAN, ns[2]), .title = ">W"},
    {NULL, NULL, OF_SUMS(MEAN, all_ns), IF_SIZE, .title = "9>F + B + W"},
    {NULL, NULL, OF_SUMS(MEAN, sample_ns), IF_SIZE, .title = "8>per sample"},
    {NULL, NULL, OF_SUMS(REAL, share), .form = "%.1f %%", IF_KIND, .title = ">share"},
    {"described_us", "F + B + W by `[cluster]`", OF_SUMS(MEAN, described_ns)},
    {"gflop_per_second", NULL, OF_SUMS(REAL, gflops), .decimals = 3},
    {NULL, NULL, OF_SUMS(REAL, gflops), .form = "%.1f", IF_KIND, .title = "7>GFLOP/s"},
    {"spread", "largest quartile distance over mean, of what takes a hundredth or more",
     OF_SUMS(REAL, worst_spread)},
    {NULL, NULL, OF_SUMS(REAL, spread), .form = "%.0f %%", IF_KIND, .title = "8>spread"},
    {NULL, NULL, OF_SUMS(REAL, slower), .form = "%.2f", IF_KIND, .title = "9>[cluster]"},
    PST_ROWS_END,
};

#define OF_MEASURED(kind, member) PST_ROW_AT(kind, 1, struct pst_measured, member)
static const struct pst_row times_rows[] = {
    {"batch", "samples of a micro-batch", PST_ROW_COUNT, .base = 0},
    {"forward_us", NULL, OF_MEASURED(MEAN, ns[0])},
    {"forward_spread", "quartile distance over mean", OF_MEASURED(REAL, spread[0])},
    {"backward_input_us", NULL, OF_MEASURED(MEAN, ns[1])},
    {"backward_input_spread", NULL, OF_MEASURED(REAL, spread[1])},
    {"backward_weight_us", NULL, OF_MEASURED(MEAN, ns[2])},
    {"backward_weight_spread", NULL, OF_MEASURED(REAL, spread[2])},
    {"runs", "that were timed", OF_MEASURED(COUNT, rounds)},
    PST_ROWS_END,
};

static void put_times(struct pst_json *json, const struct pst_row *row, const struct pst_row_of *of)
{
    const struct pst_profiled *profile = of->at[PST_ROW_OUTER + PROFILE];
    const uint32_t op = *(const uint32_t *)of->at[PST_ROW_INDEX];

    pst_json_array(json, row->key);
    for (uint32_t i = 0; i < profile->n_sizes; i++) {
        pst_rows_object(json, NULL, row->rows,
                        PST_ROW_OF(&profile->sizes[i], &profile->measured[i][op]));
    }
    pst_json_end(json, ']');
}

static void put_kind(struct pst_json *json, const struct pst_row *row, const struct pst_row_of *of)
{
    pst_json_string(json, row->key, pst_op_title(of->at[PST_ROW_ENTRY]));
}

static const struct pst_row node_rows[] = {
    {"name", "of the operator", PST_ROW_AT(TEXT, PST_ROW_ENTRY, struct pst_op, name)},
    {"op", "its kind", PST_ROW_TEXT, .json = put_kind},
    {"times", "for each size", PST_ROW_OBJECT, PST_ROW_LIST, .rows = times_rows, .json = put_times},
    PST_ROWS_END,
};

/* Operators by kind, at the largest micro-batch size. */
static const struct pst_row kinds_row[] = {
    {"kinds", NULL, PST_ROW_OBJECT, .rows = sums_rows,
     PST_ROW_EACH(FIGURES, struct figures, kinds, n_kinds)},
    PST_ROWS_END,
};

#define OF_FIGURES(kind, member) PST_ROW_AT(kind, FIGURES, struct figures, member)
const struct pst_row pst_profile_rows[] = {
    {"model", NULL, OF_FIGURES(TEXT, model)},
    {"device", NULL, OF_FIGURES(TEXT, device)},
    {"notes", "machine, device and conditions", OF_FIGURES(TEXT, notes)},
    {"file", "absent without `-o`", OF_FIGURES(TEXT, file), .absent = PST_ROW_IF_ZERO},
    {"sizes", "for each size of a micro-batch", PST_ROW_OBJECT, .rows = sums_rows,
     PST_ROW_EACH(FIGURES, struct figures, sizes, n_sizes)},
    {"nodes", "for each operator", PST_ROW_OBJECT, .rows = node_rows,
     PST_ROW_EACH(GRAPH, struct pst_graph, ops, n_ops)},
    PST_ROWS_END,
};

void pst_profile_report_print(const struct pst_session *session, const struct pst_profiled *profile,
                              const char *file, bool color, FILE *out)
{
    struct pst_arena arena = {0};
    const struct figures figures = describe(session, profile, file, &arena);

    pst_text_printf(out,
                    "%s, micro-batches of %u; [cluster] as a fraction of the measured time\n\n",
                    session->graph->name, profile->sizes[profile->n_sizes - 1]);
    pst_rows_print(kinds_row, "kinds", PST_ROW_OF(&figures), "  ", color, out);
    putc('\n', out);
    pst_rows_print(pst_profile_rows, "sizes", PST_ROW_OF(&figures), "  ", color, out);
    putc('\n', out);
    pst_table_paragraph(out, profile->graph->notes, 2);
    if (profile->worst_spread > 0.2) {
        fprintf(
            out,
            "measurements of %s spread by %.0f %% (quartiles over mean): is the machine busy?\n",
            session->graph->ops[profile->worst_op].name, 100 * profile->worst_spread);
    }
    if (profile->others > PST_OTHERS_MANY) {
        fprintf(out,
                "other processes used %.0f %% of the processors meanwhile: times may be too long\n",
                100 * profile->others);
    }
    if (file != NULL) {
        pst_text_printf(out, "written to %s; plan with it: --set profile.file=%s\n", file, file);
    }
    pst_arena_finish(&arena);
}

void pst_profile_report_json(const struct pst_session *session, const struct pst_profiled *profile,
                             const char *file, struct pst_json *json)
{
    struct pst_arena arena = {0};
    const struct figures figures = describe(session, profile, file, &arena);

    pst_rows_json(json, pst_profile_rows, PST_ROW_OF(&figures, session->graph, profile));
    pst_arena_finish(&arena);
}
