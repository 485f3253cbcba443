/* SPDX-License-Identifier: Apache-2.0
 *
 * Which values a checkpoint has, who writes them, in which pieces; and the manifest that says so.
 * All processes make the same layout of plan and programs, so they only tell each other sums.
 */
#include "checkpoint/saver_impl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/util.h"
#include "config/config.h"
#include "graph/split.h"
#include "session/isolate.h"

/* --- values ----------------------------------------------------------------------------------- */

struct collecting {
    struct saver_layout *layout;
    const struct pst_graph *graph;
    uint32_t process, part;
    size_t room;
};

static void collect(void *context, const struct pst_state_key *key, uint64_t first, uint64_t elems)
{
    struct collecting *collecting = context;
    struct saver_layout *layout = collecting->layout;
    const struct pst_parameter *parameter =
        key->kind == PST_STATE_OPERATOR ? NULL : &collecting->graph->params[key->index];
    struct saver_tensor *tensor;
    char name[PST_CHECKPOINT_NAME];

    pst_grow(&layout->tensors, &collecting->room, layout->n_tensors, sizeof *layout->tensors);
    tensor = &layout->tensors[layout->n_tensors++];
    pst_state_name(collecting->graph, key, name);
    *tensor =
        (struct saver_tensor){.is = {.name = pst_arena_strdup(&layout->arena, name),
                                     .elems = parameter == NULL ? elems : pst_box_whole(parameter)},
                              .first = first,
                              .elems = elems,
                              .process = collecting->process,
                              .offset = layout->elems[collecting->process]};
    tensor->is.rank = pst_state_shape(collecting->graph, key, elems, tensor->is.shape);
    if (parameter != NULL && pst_is_split(parameter)) {
        tensor->is.box = parameter->box;
        tensor->first += collecting->part * parameter->elems;
    }
    layout->elems[collecting->process] += elems;
}

/* The piece that begins at an element and ends by another: rows of the first axis that has one
   there which fits, of one index in the axes before. Returns its elements. */
static uint64_t cut_piece(const struct pst_checkpoint_tensor *tensor, uint64_t at, uint64_t end,
                          struct pst_checkpoint_piece *piece)
{
    const uint64_t largest = PST_CHECKPOINT_PIECE / sizeof(float);
    const uint64_t most = end - at < largest ? end - at : largest;
    uint64_t shape[PST_ST_RANK], row = pst_checkpoint_part(tensor, shape), n;
    uint32_t axis;

    piece->part = (uint32_t)(at / row);
    for (axis = 0; axis < tensor->rank; axis++) {
        row /= shape[axis];
        piece->begin[axis] = at / row % shape[axis];
        piece->shape[axis] = 1;
        if (row <= most && at % row == 0) {
            break;
        }
    }
    if (axis < tensor->rank) {
        n = shape[axis] - piece->begin[axis];
        piece->shape[axis] = n < most / row ? n : most / row;
        for (uint32_t i = axis + 1; i < tensor->rank; i++) {
            piece->shape[i] = shape[i];
        }
    }
    return row * (axis < tensor->rank ? piece->shape[axis] : 1);
}

static void cut_tensor(struct saver_layout *layout, uint32_t index, size_t *room)
{
    struct saver_tensor *tensor = &layout->tensors[index];

    tensor->first_piece = layout->n_pieces;
    for (uint64_t at = 0; at < tensor->elems;) {
        struct saver_piece *piece;

        pst_grow(&layout->pieces, room, layout->n_pieces, sizeof *layout->pieces);
        piece = &layout->pieces[layout->n_pieces++];
        *piece = (struct saver_piece){.tensor = index, .offset = tensor->offset + at};
        piece->elems =
            cut_piece(&tensor->is, tensor->first + at, tensor->first + tensor->elems, &piece->is);
        tensor->is.n_pieces++;
        at += piece->elems;
    }
}

static int by_name(const void *a, const void *b)
{
    const struct saver_tensor *one = *(const struct saver_tensor *const *)a;
    const struct saver_tensor *other = *(const struct saver_tensor *const *)b;
    const int names = strcmp(one->is.name, other->is.name);

    return names != 0 ? names : (one->first > other->first) - (one->first < other->first);
}

uint32_t saver_tensor_end(const struct saver_layout *layout, uint32_t from, bool *ret_one)
{
    const struct saver_tensor *first = layout->order[from];
    uint32_t end = from;

    *ret_one = true;
    while (end < layout->n_tensors && strcmp(layout->order[end]->is.name, first->is.name) == 0) {
        *ret_one = *ret_one && layout->order[end]->process == first->process;
        end++;
    }
    return end;
}

/* Pieces of one name are numbered over all processes. */
static void name_pieces(struct saver_layout *layout)
{
    uint32_t n = 0;
    const char *last = "";

    layout->order = pst_arena_array(&layout->arena, layout->n_tensors, sizeof *layout->order);
    for (uint32_t i = 0; i < layout->n_tensors; i++) {
        layout->order[i] = &layout->tensors[i];
    }
    if (layout->n_tensors > 0) {
        qsort(layout->order, layout->n_tensors, sizeof *layout->order, by_name);
    }
    for (uint32_t i = 0; i < layout->n_tensors; i++) {
        const struct saver_tensor *tensor = layout->order[i];

        n = strcmp(tensor->is.name, last) == 0 ? n : 0;
        last = tensor->is.name;
        for (uint32_t k = 0; k < tensor->is.n_pieces; k++) {
            struct saver_piece *piece = &layout->pieces[tensor->first_piece + k];

            piece->is.key = piece->elems == tensor->is.elems
                                ? last
                                : pst_arena_printf(&layout->arena, "%s#%06u", last, n++);
        }
    }
}

void saver_layout_make(struct saver_layout *layout, const struct pst_session *session)
{
    const struct pst_plan *plan = session->planned.plan;
    struct collecting collecting = {.layout = layout, .graph = session->graph};
    uint32_t *group_of;
    size_t room = 0;

    *layout = (struct saver_layout){.n_processes = session->team.ops != NULL ? session->team.n : 1};
    layout->elems = pst_arena_array(&layout->arena, layout->n_processes, sizeof *layout->elems);
    layout->first_tensor =
        pst_arena_array(&layout->arena, layout->n_processes + 1, sizeof(uint32_t));
    layout->first_piece =
        pst_arena_array(&layout->arena, layout->n_processes + 1, sizeof(uint32_t));
    layout->rank_offset = pst_arena_array(&layout->arena, plan->n_devices, sizeof(uint64_t));
    group_of = pst_arena_array(&layout->arena, plan->n_devices, sizeof *group_of);
    pst_plan_groups(plan, group_of);
    for (uint32_t r = 0; r < plan->n_devices; r++) {
        collecting.process = layout->n_processes > 1 ? r : 0;
        collecting.part = r > 0 && group_of[r] == group_of[r - 1] ? collecting.part + 1 : 0;
        layout->rank_offset[r] = layout->elems[collecting.process];
        pst_exec_state_of(plan, session->planned.programs[r], collect, &collecting);
        layout->first_tensor[collecting.process + 1] = layout->n_tensors;
    }
    for (uint32_t p = 0; p < layout->n_processes; p++) {
        size_t n_hashes = layout->first_tensor[p + 1] - layout->first_tensor[p];
        size_t bytes;

        for (uint32_t i = layout->first_tensor[p]; i < layout->first_tensor[p + 1]; i++) {
            cut_tensor(layout, i, &room);
        }
        layout->first_piece[p + 1] = layout->n_pieces;
        n_hashes += layout->first_piece[p + 1] - layout->first_piece[p];
        bytes = sizeof(struct saver_sums) + n_hashes * sizeof(struct pst_hash);
        layout->sums_bytes = bytes > layout->sums_bytes ? bytes : layout->sums_bytes;
    }
    name_pieces(layout);
}

struct saver_sums *saver_sums_of(const struct saver_job *job, uint32_t process)
{
    return (struct saver_sums *)(void *)(job->sums + process * job->layout->sums_bytes);
}

struct pst_hash *saver_tensor_sum(const struct saver_job *job, const struct saver_tensor *tensor)
{
    const struct saver_layout *layout = job->layout;

    return &saver_sums_of(job, tensor->process)
                ->hashes[tensor - layout->tensors - layout->first_tensor[tensor->process]];
}

struct pst_hash *saver_piece_sum(const struct saver_job *job, uint32_t piece)
{
    const struct saver_layout *layout = job->layout;
    const uint32_t process = layout->tensors[layout->pieces[piece].tensor].process;
    const uint32_t n_tensors = layout->first_tensor[process + 1] - layout->first_tensor[process];

    return &saver_sums_of(job, process)->hashes[n_tensors + piece - layout->first_piece[process]];
}

void saver_shard_name(uint32_t process, char text[32])
{
    snprintf(text, 32, "shard-%05u.safetensors", process);
}

/* --- the manifest ----------------------------------------------------------------------------- */

static const char *hash_text(struct pst_arena *arena, const struct pst_hash *hash)
{
    char text[PST_HASH_TEXT];

    return pst_arena_strdup(arena, pst_hash_text(hash, text));
}

/* One tensor of all that have the name of order[from]; returns their end. */
static uint32_t put_tensor(const struct saver_job *job, uint32_t from, const uint32_t *files,
                           struct pst_arena *arena, struct pst_checkpoint_tensor *to)
{
    const struct saver_layout *layout = job->layout;
    bool one;
    const uint32_t end = saver_tensor_end(layout, from, &one);
    uint32_t n = 0;

    for (uint32_t i = from; i < end; i++) {
        n += layout->order[i]->is.n_pieces;
    }
    *to = layout->order[from]->is;
    to->xxh3 = one ? hash_text(arena, saver_tensor_sum(job, layout->order[from])) : NULL;
    to->pieces = pst_arena_array(arena, n, sizeof *to->pieces);
    to->n_pieces = 0;
    for (uint32_t i = from; i < end; i++) {
        const struct saver_tensor *tensor = layout->order[i];

        for (uint32_t k = 0; k < tensor->is.n_pieces; k++) {
            const uint32_t index = tensor->first_piece + k;
            struct pst_checkpoint_piece *piece = &to->pieces[to->n_pieces++];

            *piece = layout->pieces[index].is;
            piece->file = files[tensor->process];
            piece->xxh3 = hash_text(arena, saver_piece_sum(job, index));
        }
    }
    return end;
}

static void put_contents(const struct saver_job *job, struct pst_arena *arena,
                         struct pst_manifest *m)
{
    const struct saver_layout *layout = job->layout;
    uint32_t *files = pst_arena_array(arena, layout->n_processes, sizeof *files);

    m->files = pst_arena_array(arena, layout->n_processes, sizeof *m->files);
    for (uint32_t p = 0; p < layout->n_processes; p++) {
        const struct saver_sums *sums = saver_sums_of(job, p);
        char name[32];

        files[p] = m->n_files;
        if (sums->bytes > 0) {
            saver_shard_name(p, name);
            m->files[m->n_files++] =
                (struct pst_checkpoint_file){.name = pst_arena_strdup(arena, name),
                                             .bytes = sums->bytes,
                                             .xxh3 = hash_text(arena, &sums->file)};
        }
    }
    m->tensors = pst_arena_array(arena, layout->n_tensors, sizeof *m->tensors);
    for (uint32_t i = 0; i < layout->n_tensors;) {
        i = put_tensor(job, i, files, arena, &m->tensors[m->n_tensors++]);
    }
}

/* Is some gradient a sum over micro-batches of sums over replicas, and not the reverse? */
static bool sums_each(const struct pst_plan *plan)
{
    for (uint32_t s = 0; s < plan->n_stages && plan->zero > 1; s++) {
        if (plan->stages[s].n_microbatches > 1 && pst_plan_replicas(&plan->stages[s]) > 1) {
            return true;
        }
    }
    return false;
}

/* All of the texts, or where they are too long the first one and a hash of all. */
static const char *join_texts(const char *const *texts, uint32_t n, struct pst_arena *arena)
{
    struct pst_hasher *hasher = pst_hasher_create();
    struct pst_hash hash;
    char text[256] = "", digits[PST_HASH_TEXT];

    for (uint32_t i = 0; i < n; i++) {
        pst_text_append(text, sizeof text, "%s%s", i == 0 ? "" : ", ", texts[i]);
        pst_hasher_add(hasher, texts[i], strlen(texts[i]) + 1);
    }
    hash = pst_hasher_end(hasher);
    pst_hasher_destroy(hasher);
    return strlen(text) + 1 < sizeof text
               ? pst_arena_strdup(arena, text)
               : pst_arena_printf(arena, "%.64s and %u others, xxh3:%s", texts[0], n - 1,
                                  pst_hash_text(&hash, digits));
}

/* Operators that are divided by name. */
static const char *ways_by_name(const struct pst_graph *graph, struct pst_arena *arena)
{
    return graph->n_by_name == 0 ? PST_CHECKPOINT_NO_WAY
                                 : join_texts(graph->by_name, graph->n_by_name, arena);
}

static uint32_t replicas_of(const struct pst_plan_stage *stage)
{
    return pst_plan_replicas(stage);
}

static uint32_t tensor_of(const struct pst_plan_stage *stage)
{
    return stage->tensor;
}

/* A number that stages have: "2", or where they differ "1 from wte, 2 from h.1.ln_1": in the order
   of the model's operators, so that it does not say how these are cut. */
static const char *numbers_of(const struct pst_session *session,
                              uint32_t (*number_of)(const struct pst_plan_stage *),
                              struct pst_arena *arena)
{
    const struct pst_graph *graph = session->graph, *whole = pst_graph_model(graph);
    const struct pst_plan *plan = session->planned.plan;
    uint32_t *numbers = pst_alloc(whole->n_ops, sizeof *numbers), n = 0;
    const char **texts = pst_arena_array(arena, whole->n_ops, sizeof *texts), *joined;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        for (uint32_t i = 0; i < plan->stages[s].n_nodes; i++) {
            const uint32_t o = plan->stages[s].nodes[i];
            uint32_t *number = &numbers[graph->op_of != NULL ? graph->op_of[o] : o];

            /* what comes after the operator itself serves it, perhaps in a later stage */
            if (*number == 0 && !pst_op_is_convert(graph->ops[o].kind)) {
                *number = number_of(&plan->stages[s]);
            }
        }
    }
    for (uint32_t v = 0; v < whole->n_ops; v++) {
        if (v == 0 || numbers[v] != numbers[v - 1]) {
            texts[n++] = pst_arena_printf(arena, "%u from %s", numbers[v], whole->ops[v].name);
        }
    }
    joined = n == 1 ? pst_arena_printf(arena, "%u", numbers[0]) : join_texts(texts, n, arena);
    free(numbers);
    return joined;
}

void pst_checkpoint_describe(const struct pst_session *session, uint64_t data_digest,
                             struct pst_arena *arena, struct pst_manifest *ret_manifest)
{
    static const char *const rules[] = {[PST_VERSION_SYNC] = "sync",
                                        [PST_VERSION_DELAYED] = "delayed",
                                        [PST_VERSION_STASHED] = "stashed"};
    const struct pst_plan *plan = session->planned.plan;
    const struct pst_job *job = session->job;
    const struct pst_graph *whole = pst_graph_model(session->graph);
    char optimizer[64], dtype[64];

    *ret_manifest = (struct pst_manifest){
        .written_by = "penstock " PENSTOCK_VERSION,
        .model = whole->name,
        .model_digest = pst_arena_printf(arena, "xxh3:%016llx", (unsigned long long)whole->digest),
        .n_parameters = whole->n_params,
        .data_digest = pst_arena_printf(arena, "xxh3:%016llx", (unsigned long long)data_digest),
        .data_seed = (uint64_t)job->training->data.seed,
        .batch = plan->batch / session->graph->slices,
        .seed = (uint64_t)job->train.seed,
        .optimizer = pst_arena_strdup(arena, pst_job_word(job, "train", "optimizer", optimizer)),
        .numerics = {[PST_NUMERIC_DEVICE] = job->run.device,
                     [PST_NUMERIC_KERNELS] = job->run.kernels,
                     [PST_NUMERIC_DTYPE] =
                         pst_arena_strdup(arena, pst_job_word(job, "run", "dtype", dtype)),
                     [PST_NUMERIC_THREADS] =
                         pst_arena_printf(arena, "%lld", (long long)job->run.threads_per_device),
                     [PST_NUMERIC_MICROBATCH] = pst_arena_printf(
                         arena, "%lld", (long long)job->train.microbatch * plan->copies),
                     [PST_NUMERIC_REPLICAS] = numbers_of(session, replicas_of, arena),
                     [PST_NUMERIC_TENSOR] = numbers_of(session, tensor_of, arena),
                     [PST_NUMERIC_SEQUENCE] = session->graph->sequence ? "true" : "false",
                     [PST_NUMERIC_WAYS] = pst_ways_names[session->graph->ways],
                     [PST_NUMERIC_WAY] = ways_by_name(session->graph, arena),
                     [PST_NUMERIC_ZERO] =
                         sums_each(plan) ? PST_CHECKPOINT_SUMMED : PST_CHECKPOINT_ZERO},
        .partitioner = plan->partitioner != NULL ? plan->partitioner : "",
        .scheduler = plan->scheduler != NULL ? plan->scheduler : "",
        .memopt = plan->memopt != NULL ? plan->memopt : "",
        .rule = rules[plan->version_rule],
        .drain_every = plan->drain_every,
    };
}

char *saver_manifest(const struct saver_job *job)
{
    const struct pst_session *session = job->config->session;
    struct pst_arena arena = {0};
    struct pst_manifest manifest;
    char *config = pst_config_to_json(session->job->config), *text, folder[PATH_MAX];
    char *plan = pst_plan_to_json(session->planned.plan, session->graph);
    const struct pst_hash digest = pst_hash_of(plan, strlen(plan));

    pst_checkpoint_describe(session, job->config->data_digest, &arena, &manifest);
    manifest.run = job->run;
    manifest.step = job->moment.step;
    manifest.updates = job->moment.updates;
    manifest.samples = job->moment.samples / session->graph->slices;
    manifest.epoch = job->moment.epoch;
    manifest.skipped = job->moment.skipped;
    manifest.counts = job->moment.counts;
    manifest.drained = job->moment.drained;
    manifest.plan_digest = pst_arena_printf(&arena, "xxh3:%s", hash_text(&arena, &digest));
    manifest.config = config;
    manifest.folder = getcwd(folder, sizeof folder);
    manifest.model_file = session->model_file;
    manifest.model_file_hash = session->model_file_hash;
    put_contents(job, &arena, &manifest);
    text = pst_manifest_write(&manifest);
    pst_arena_finish(&arena);
    free(config);
    free(plan);
    return text;
}
