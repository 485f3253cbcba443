/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/profile_report.h"

#include "base/json.h"
#include "base/text.h"
#include "base/util.h"
#include "reports/table.h"

/* Sums over operators, of one kind or of all (PST_OP_KINDS). */
struct sums {
    uint32_t n_ops;
    double ns[3], all_ns, described_ns, flops;
    double worst_spread; /* of operators that take a hundredth of these or more */
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
    struct sums sums = {0};

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
    return sums;
}

/* --- for people ------------------------------------------------------------------------------- */

static void add_row(struct pst_table *table, const char *name, const struct sums *sums,
                    double whole_ns)
{
    pst_table_cell(table, "%s", name);
    pst_table_cell(table, "%u", sums->n_ops);
    for (uint32_t pass = 0; pass < 3; pass++) {
        pst_table_ns(table, (uint64_t)sums->ns[pass]);
    }
    pst_table_cell(table, "%.1f %%", whole_ns > 0 ? 100 * sums->all_ns / whole_ns : 0);
    pst_table_cell(table, "%.1f", sums->all_ns > 0 ? sums->flops / sums->all_ns : 0);
    pst_table_cell(table, "%.0f %%", 100 * sums->worst_spread);
    pst_table_cell(table, "%.2f", sums->all_ns > 0 ? sums->described_ns / sums->all_ns : 0);
}

static void print_kinds(const struct pst_session *session, const struct pst_profiled *profile,
                        bool color, FILE *out)
{
    const struct sums whole = add_up(session, profile, profile->n_sizes - 1, PST_OP_KINDS);
    struct pst_table table;

    pst_table_init(&table, "~operators|6>number|>F|>B|>W|>share|7>GFLOP/s|8>spread|9>[cluster]");
    for (uint32_t kind = 0; kind < PST_OP_KINDS; kind++) {
        const struct sums sums = add_up(session, profile, profile->n_sizes - 1, kind);

        if (sums.n_ops > 0) {
            add_row(&table, pst_op_kind_name(kind), &sums, whole.all_ns);
        }
    }
    add_row(&table, "all", &whole, whole.all_ns);
    pst_table_end(&table, out, "  ", color);
}

static void print_sizes(const struct pst_session *session, const struct pst_profiled *profile,
                        bool color, FILE *out)
{
    struct pst_table table;

    pst_table_init(&table, ">samples|>F|>B|>W|9>F + B + W|8>per sample");
    for (uint32_t i = 0; i < profile->n_sizes; i++) {
        const struct sums sums = add_up(session, profile, i, PST_OP_KINDS);
        char text[32];

        pst_table_cell(&table, "%u", profile->sizes[i]);
        for (uint32_t pass = 0; pass < 3; pass++) {
            pst_table_ns(&table, (uint64_t)sums.ns[pass]);
        }
        pst_table_ns(&table, (uint64_t)sums.all_ns);
        pst_table_cell(&table, "%s",
                       pst_format_ns(text, (uint64_t)(sums.all_ns / profile->sizes[i])));
    }
    pst_table_end(&table, out, "  ", color);
}

void pst_profile_report_print(const struct pst_session *session, const struct pst_profiled *profile,
                              const char *file, bool color, FILE *out)
{
    pst_text_printf(out,
                    "%s, micro-batches of %u; [cluster] as a fraction of the measured time\n\n",
                    session->graph->name, profile->sizes[profile->n_sizes - 1]);
    print_kinds(session, profile, color, out);
    putc('\n', out);
    print_sizes(session, profile, color, out);
    putc('\n', out);
    pst_table_paragraph(out, profile->graph->notes, 2);
    if (profile->worst_spread > 0.2) {
        fprintf(
            out,
            "measurements of %s spread by %.0f %% (quartiles over mean): is the machine busy?\n",
            session->graph->ops[profile->worst_op].name, 100 * profile->worst_spread);
    }
    if (file != NULL) {
        pst_text_printf(out, "written to %s; plan with it: --set profile.file=%s\n", file, file);
    }
}

/* --- for tools -------------------------------------------------------------------------------- */

static void write_sums(struct pst_json *json, const struct sums *sums)
{
    static const char *const keys[3] = {"forward_us", "backward_input_us", "backward_weight_us"};

    for (uint32_t pass = 0; pass < 3; pass++) {
        pst_json_us(json, keys[pass], sums->ns[pass]);
    }
    pst_json_us(json, "described_us", sums->described_ns);
    pst_json_real(json, "gflop_per_second", sums->all_ns > 0 ? sums->flops / sums->all_ns : 0, 3);
    pst_json_real(json, "spread", sums->worst_spread, 6);
}

static void write_op(struct pst_json *json, const struct pst_session *session,
                     const struct pst_profiled *profile, uint32_t op)
{
    static const char *const keys[3] = {"forward_us", "backward_input_us", "backward_weight_us"};
    static const char *const spreads[3] = {"forward_spread", "backward_input_spread",
                                           "backward_weight_spread"};

    pst_json_object(json, NULL);
    pst_json_string(json, "name", session->graph->ops[op].name);
    pst_json_string(json, "op", pst_op_title(&session->graph->ops[op]));
    pst_json_array(json, "times");
    for (uint32_t i = 0; i < profile->n_sizes; i++) {
        const struct pst_measured *m = &profile->measured[i][op];

        pst_json_object(json, NULL);
        pst_json_uint(json, "batch", profile->sizes[i]);
        for (uint32_t pass = 0; pass < 3; pass++) {
            pst_json_us(json, keys[pass], m->ns[pass]);
            pst_json_real(json, spreads[pass], m->spread[pass], 6);
        }
        pst_json_uint(json, "runs", m->rounds);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
    pst_json_end(json, '}');
}

void pst_profile_report_json(const struct pst_session *session, const struct pst_profiled *profile,
                             const char *file, struct pst_json *json)
{
    pst_json_string(json, "model", session->graph->name);
    pst_json_string(json, "device", session->job->run.device);
    pst_json_string(json, "notes", profile->graph->notes);
    if (file != NULL) {
        pst_json_string(json, "file", file);
    }
    pst_json_array(json, "sizes");
    for (uint32_t i = 0; i < profile->n_sizes; i++) {
        const struct sums sums = add_up(session, profile, i, PST_OP_KINDS);

        pst_json_object(json, NULL);
        pst_json_uint(json, "samples", profile->sizes[i]);
        write_sums(json, &sums);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
    pst_json_array(json, "nodes");
    for (uint32_t o = 0; o < profile->n_ops; o++) {
        write_op(json, session, profile, o);
    }
    pst_json_end(json, ']');
}
