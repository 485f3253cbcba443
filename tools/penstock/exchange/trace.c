/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "exchange/gzip.h"
#include "exchange/trace_impl.h"

/* All events of one timeline; its ranks begin at pid_base. */
static void put_timeline(struct pst_json *json, const struct pst_timeline *timeline,
                         uint32_t pid_base, const char *prefix)
{
    struct pst_trace trace = {
        .json = json, .timeline = timeline, .pid_base = pid_base, .prefix = prefix};

    pst_trace_assign_rows(&trace);
    pst_trace_pair(&trace);
    for (uint32_t r = 0; r < timeline->n_ranks && !json->failed; r++) {
        pst_trace_find_gaps(&trace, r);
        pst_trace_put_rank(&trace, r);
    }
    if (pid_base == 0 && !json->failed) {
        pst_trace_put_steps(&trace);
    }
    pst_arena_finish(&trace.arena);
}

static void put_clock(struct pst_json *json, const struct pst_trace_clock *clocks, uint32_t n)
{
    pst_json_object(json, "clock");
    pst_json_uint(json, "reference_rank", 0);
    pst_json_array(json, "per_rank");
    for (uint32_t r = 0; r < n; r++) {
        pst_json_object(json, NULL);
        pst_json_number(json, "offset_us", clocks == NULL ? 0 : clocks[r].offset_us);
        pst_json_number(json, "uncertainty_us", clocks == NULL ? 0 : clocks[r].uncertainty_us);
        pst_json_end(json, '}');
    }
    pst_json_end(json, ']');
    pst_json_end(json, '}');
}

char *pst_trace_to_json(const struct pst_timeline *timeline, const struct pst_trace_meta *meta)
{
    static const struct pst_trace_meta nothing;
    struct pst_json json;

    meta = meta == NULL ? &nothing : meta;
    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_json_string(&json, "displayTimeUnit", "ms");
    pst_json_object(&json, "otherData");
    pst_json_string(&json, "penstock_version", PENSTOCK_VERSION);
    pst_json_string(&json, "title", timeline->title);
    pst_json_string(&json, "kind", timeline->kind);
    pst_json_string(&json, "run_id", meta->run_id);
    pst_json_string(&json, "plan_digest", meta->plan_digest);
    if (meta->sharing != NULL) {
        pst_json_string(&json, "sharing", meta->sharing);
    }
    put_clock(&json, meta->clocks, timeline->n_ranks);
    pst_json_end(&json, '}');
    pst_json_array(&json, "traceEvents");
    put_timeline(&json, timeline, 0, "");
    if (meta->predicted != NULL) {
        put_timeline(&json, meta->predicted, TRACE_PREDICTED, "predicted");
    }
    pst_json_end(&json, ']');
    pst_json_end(&json, '}');
    pst_json_newline(&json);
    return pst_json_take(&json);
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

pst_status pst_trace_write(const struct pst_timeline *timeline, const char *path,
                           const struct pst_trace_meta *meta, struct pst_error *err)
{
    char *text = pst_trace_to_json(timeline, meta);
    unsigned char *packed = NULL;
    size_t length = strlen(text), n_packed = 0;
    pst_status st;

    if (!ends_with(path, ".gz")) {
        st = pst_file_write(path, text, length, err);
    } else {
        pst_gzip(text, length, &packed, &n_packed);
        st = pst_file_write(path, packed, n_packed, err);
    }
    free(packed);
    free(text);
    return st;
}
