/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole plans as text, compared with files that were read by a person. After a wanted change, set
 * PENSTOCK_GOLDEN_WRITE=1, run this once and read the difference before it is committed.
 */
#include "../plugin/job_rig.h"

#include "test.h"

#include "base/util.h"

#define FOLDER PENSTOCK_SOURCE_DIR "/tests/golden/"

static void print_stage(FILE *out, const struct job_rig *rig, const struct pst_plan *plan,
                        uint32_t s)
{
    static const char *const actions[] = {"keep", "recompute", "offload", "peer"};
    const struct pst_plan_stage *stage = &plan->stages[s];

    fprintf(out, "stage %u on device %u: %u micro-batches of %u, %u in flight\n", s,
            stage->ranks[0], stage->n_microbatches, stage->microbatch_size, stage->in_flight);
    for (uint32_t i = 0; i < stage->n_nodes; i++) {
        fprintf(out, "    %-20s %s\n", rig->graph->ops[stage->nodes[i]].name,
                actions[stage->actions[i]]);
    }
}

static void print_instr(FILE *out, const struct pst_plan *plan, const struct pst_instr *instr)
{
    fprintf(out, "    %s", pst_instr_name(instr->op));
    switch (instr->op) {
    case PST_I_SEND:
    case PST_I_RECV: {
        const struct pst_plan_edge *edge = &plan->edges[instr->stage];
        bool grad = instr->payload == PST_PAYLOAD_GRAD;

        fprintf(out, " %s of stage %u, samples %u to %u, %s device %u",
                grad ? "gradient" : "result", edge->from, instr->first_sample,
                instr->first_sample + instr->n_samples - 1, instr->op == PST_I_SEND ? "to" : "from",
                instr->peer);
        if (edge->to != edge->from + 1) {
            fprintf(out, ", skipping to stage %u", edge->to);
        }
        break;
    }
    case PST_I_TIE:
    case PST_I_REDUCE:
    case PST_I_STEP:
        fprintf(out, " %u", instr->stage);
        break;
    case PST_I_NORM:
        break;
    default:
        fprintf(out, " %u.%u", instr->stage, instr->microbatch);
        break;
    }
    fprintf(out, "\n");
}

/* The plan of FOLDER/<name>.toml as text; free() it. */
static char *plan_text(const char *name)
{
    struct pst_planned planned;
    struct job_rig rig;
    struct pst_error err;
    char path[512], *toml = NULL, *text = NULL;
    size_t n;
    FILE *out;

    snprintf(path, sizeof path, FOLDER "%s.toml", name);
    assert_int_equal(pst_file_read(path, 1 << 20, "input.syntax", &toml, &n, &err), PST_OK);
    if (job_rig_plan(&rig, toml, &planned) != PST_OK) {
        fail_msg("%s: %s", name, rig.err.message);
    }
    free(toml);
    out = open_memstream(&text, &n);
    assert_non_null(out);
    for (uint32_t s = 0; s < planned.plan->n_stages; s++) {
        print_stage(out, &rig, planned.plan, s);
    }
    for (uint32_t r = 0; r < planned.plan->n_devices; r++) {
        const struct pst_plan_device *device = &planned.plan->devices[r];

        fprintf(out, "device %u\n", r);
        for (uint32_t i = 0; i < device->n_instrs; i++) {
            print_instr(out, planned.plan, &device->body[i]);
        }
    }
    fclose(out);
    pst_planned_finish(&planned);
    job_rig_finish(&rig);
    return text;
}

static void check(const char *name)
{
    char *text = plan_text(name), *expected = NULL, path[512];
    struct pst_error err;
    size_t n;

    snprintf(path, sizeof path, FOLDER "%s.txt", name);
    if (getenv("PENSTOCK_GOLDEN_WRITE") != NULL) {
        assert_int_equal(pst_file_write(path, text, strlen(text), &err), PST_OK);
    }
    assert_int_equal(pst_file_read(path, 1 << 20, "input.syntax", &expected, &n, &err), PST_OK);
    assert_string_equal(text, expected);
    free(text);
    free(expected);
}

TEST(test_mlp_1f1b)
{
    check("mlp-1f1b");
}

TEST(test_gpt_gpipe_full)
{
    check("gpt-gpipe-full");
}
