/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of values that several ranks save, a range of elements each, or a part, or a range of
 * a part, in one process or in several. Ranges and parts are made up: they are written into graph
 * and programs of a plan with replicas.
 */
#include "test.h"

#include "job_defaults.h"
#include "support.h"
#include "base/memory.h"
#include "checkpoint/resume.h"
#include "checkpoint/saver_impl.h"
#include "config/config.h"
#include "loop/initial_values.h"
#include "measure/parts.h"

enum { RANKS = 3, MOST = 6, STEP = 7 };

/* Parameters by number: weight and bias of each layer. */
static const char mlp[] =
    "model = { use = \"mlp\", layers = 2, inputs = 3, hidden = 4, classes = 2 }\n"
    "data = { kind = \"synthetic\" }\n"
    "cluster = { devices = 3 }\n"
    "train = { batch = 6, microbatch = 3, degrees = [3], optimizer = \"adam\" }\n"
    "partitioner = { use = \"uniform\" }\n"
    "scheduler = { use = \"1f1b\" }\n"
    "plugins = { isolate = \"never\" }\n";

struct rig {
    struct pst_config *config;
    struct pst_job job;
    struct pst_session *session;
    struct saver_layout layout;
    struct pst_saver_config saver;
    struct pst_save_moment moment;
    struct saver_job saves[MOST];
    float *values[MOST];
    char *sums;
    char folder[128], path[160];
};

static void begin(struct rig *rig, const char *toml, uint32_t n_processes)
{
    static const struct pst_transport_processes others;
    struct pst_error err = {0};

    *rig = (struct rig){.moment = {.step = STEP, .counts = {.step = STEP}}};
    pst_session_set_parts(&pst_program_parts);
    support_begin(NULL);
    assert_ok(pst_config_parse(toml, strlen(toml), "t.toml", &rig->config, &err), &err);
    assert_ok(pst_job_read(rig->config, &rig->job, &err), &err);
    rig->job.advice = PST_ADVICE_NONE;
    assert_ok(pst_session_create_for_planning(&rig->job, &rig->session, &err), &err);
    assert_ok(pst_session_plan(rig->session, NULL, NULL, &err), &err);
    assert_true(rig->session->planned.plan->n_devices <= MOST);
    if (n_processes > 1) {
        rig->session->team.ops = &others;
        rig->session->team.n = n_processes;
    }
    snprintf(rig->folder, sizeof rig->folder, "%s", support_path("made"));
    snprintf(rig->path, sizeof rig->path, "%s/step-%012d", rig->folder, STEP);
    assert_int_equal(mkdir(rig->folder, 0700), 0);
}

static void end(struct rig *rig)
{
    rig->session->team.ops = NULL;
    for (uint32_t p = 0; p < MOST; p++) {
        free(rig->values[p]);
    }
    free(rig->sums);
    free(rig->layout.tensors);
    free(rig->layout.pieces);
    pst_arena_finish(&rig->layout.arena);
    pst_session_destroy(rig->session);
    pst_job_finish(&rig->job);
    pst_config_destroy(rig->config);
    support_end(NULL);
}

/* Rank r saves elements borders[r]..borders[r + 1] of a parameter. */
static void cut(struct rig *rig, uint32_t parameter, const uint64_t borders[RANKS + 1])
{
    for (uint32_t r = 0; r < RANKS; r++) {
        struct pst_program_param *param = &rig->session->planned.programs[r]->params[parameter];

        assert_int_equal(param->parameter, parameter);
        param->shard = (struct pst_shard){borders[r], borders[r + 1] - borders[r]};
        param->owner = true;
    }
}

static void shape(struct rig *rig, uint32_t parameter, uint32_t rank, const uint64_t *dims)
{
    struct pst_parameter *it = &rig->session->graph->params[parameter];

    it->rank = rank;
    it->elems = 1;
    for (uint32_t i = 0; i < rank; i++) {
        it->dims[i] = dims[i];
        it->elems *= dims[i];
    }
}

/* Element e of the value with that name. */
static float value_of(void *context, const char *name, uint64_t e)
{
    const struct pst_hash hash = pst_hash_of(name, strlen(name));

    (void)context;
    return (float)(hash.low % 4000 * 1000 + e);
}

/* The place on the axis of the n-th that a part has there; that of padding is beyond all others. */
static uint64_t place_of(const struct pst_box *box, uint64_t part, uint64_t n)
{
    uint64_t begin = 0;
    uint32_t s = 0;

    if (box->padding > 0) {
        return part * ((box->sections[0] + box->padding) / box->parts) + n;
    }
    while (n >= box->sections[s] / box->parts) {
        n -= box->sections[s] / box->parts;
        begin += box->sections[s++];
        assert_true(s < box->n_sections);
    }
    return begin + part * (box->sections[s] / box->parts) + n;
}

/* Elements of all parts. */
static uint64_t n_stored(const struct pst_checkpoint_tensor *tensor)
{
    const uint32_t axis = tensor->box.axis;

    return tensor->elems / tensor->shape[axis] * (tensor->shape[axis] + tensor->box.padding);
}

/* Where element `at` of what is written, in order, is in the whole: parts come one after the other.
   By coordinates. UINT64_MAX: it is padding. */
static uint64_t whole_of(const struct pst_checkpoint_tensor *tensor, uint64_t at)
{
    const uint64_t parts = tensor->box.parts > 1 ? tensor->box.parts : 1;
    const uint64_t part = at / (n_stored(tensor) / parts);
    uint64_t whole = 0, row = 1;
    bool pads = false;

    at %= n_stored(tensor) / parts;
    for (uint32_t i = tensor->rank; i-- > 0;) {
        const bool split = parts > 1 && i == tensor->box.axis;
        const uint64_t n =
            split ? (tensor->shape[i] + tensor->box.padding) / parts : tensor->shape[i];
        const uint64_t place = split ? place_of(&tensor->box, part, at % n) : at % n;

        pads = pads || place >= tensor->shape[i];
        whole += place * row;
        at /= n;
        row *= tensor->shape[i];
    }
    return pads ? UINT64_MAX : whole;
}

/* Padding has a value that nothing else has, and nobody may read. */
static float stored(float (*value)(void *context, const char *name, uint64_t e), void *context,
                    const struct pst_checkpoint_tensor *tensor, uint64_t at)
{
    const uint64_t whole = whole_of(tensor, at);

    return whole != UINT64_MAX ? value(context, tensor->name, whole) : -7;
}

/* All processes write, and the first one commits. */
static pst_status save(struct rig *rig, float (*value)(void *context, const char *name, uint64_t e),
                       void *context, struct pst_error *err)
{
    struct saver_layout *layout = &rig->layout;
    pst_status status = PST_OK;

    saver_layout_make(layout, rig->session);
    rig->saver = (struct pst_saver_config){.session = rig->session};
    rig->sums = calloc(layout->n_processes, layout->sums_bytes);
    for (uint32_t p = 0; p < layout->n_processes; p++) {
        rig->values[p] = calloc(layout->elems[p] + 1, sizeof(float));
        rig->saves[p] = (struct saver_job){.config = &rig->saver,
                                           .layout = layout,
                                           .folder = rig->folder,
                                           .run = "feed",
                                           .process = p,
                                           .values = rig->values[p],
                                           .sums = rig->sums,
                                           .moment = rig->moment};
    }
    for (uint32_t i = 0; i < layout->n_tensors; i++) {
        const struct saver_tensor *tensor = &layout->tensors[i];

        for (uint64_t e = 0; e < tensor->elems; e++) {
            rig->values[tensor->process][tensor->offset + e] =
                stored(value, context, &tensor->is, tensor->first + e);
        }
    }
    for (uint32_t p = 0; p < layout->n_processes && status == PST_OK; p++) {
        status = saver_write_shard(&rig->saves[p], err);
    }
    return status == PST_OK ? saver_commit(&rig->saves[0], err) : status;
}

static void tell(void *context, const struct pst_error *defect)
{
    *(struct pst_error *)context = *defect;
}

static struct pst_checkpoint *open_sound(const struct rig *rig)
{
    struct pst_checkpoint *checkpoint = NULL;
    struct pst_error err = {0};

    if (pst_checkpoint_check(rig->path, tell, &err) > 0) {
        fail_msg("%s", err.message);
    }
    assert_ok(pst_checkpoint_open(rig->path, &checkpoint, &err), &err);
    return checkpoint;
}

/* Every value is read as it was saved; a sum of the whole is right where there is one. */
static void expect_values(const struct pst_checkpoint *checkpoint)
{
    for (uint32_t i = 0; i < checkpoint->manifest.n_tensors; i++) {
        const struct pst_checkpoint_tensor *tensor = &checkpoint->manifest.tensors[i];
        float *values = calloc(n_stored(tensor), sizeof *values);
        char sum[PST_HASH_TEXT];
        struct pst_hash hash;
        struct pst_error err = {0};

        assert_ok(pst_checkpoint_read(checkpoint, tensor, values, &err), &err);
        for (uint64_t e = 0; e < tensor->elems; e++) {
            assert_true(values[e] == value_of(NULL, tensor->name, e));
        }
        for (uint64_t e = 0; e < n_stored(tensor); e++) {
            values[e] = stored(value_of, NULL, tensor, e);
        }
        hash = pst_hash_of(values, n_stored(tensor) * sizeof *values);
        assert_true(tensor->xxh3 == NULL || strcmp(tensor->xxh3, pst_hash_text(&hash, sum)) == 0);
        free(values);
    }
}

struct box {
    uint32_t file;
    uint64_t begin[3], shape[3];
};

static void expect_boxes(const struct pst_checkpoint *checkpoint, const char *name,
                         const struct box *boxes, uint32_t n)
{
    const struct pst_checkpoint_tensor *tensor = pst_checkpoint_find(checkpoint, name);
    char key[100];

    assert_non_null(tensor);
    assert_int_equal(tensor->n_pieces, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct pst_checkpoint_piece *piece = &tensor->pieces[i];

        snprintf(key, sizeof key, "%s#%06u", name, i);
        assert_string_equal(piece->key, key);
        assert_int_equal(piece->file, boxes[i].file);
        assert_memory_equal(piece->begin, boxes[i].begin, tensor->rank * sizeof(uint64_t));
        assert_memory_equal(piece->shape, boxes[i].shape, tensor->rank * sizeof(uint64_t));
    }
}

#define N(array) (uint32_t)(sizeof(array) / sizeof *(array))

/* Weights in three, two and one dimension, cut anywhere; the rest is whole. */
static void cut_all(struct rig *rig)
{
    shape(rig, 0, 3, (const uint64_t[]){3, 4, 5});
    shape(rig, 2, 2, (const uint64_t[]){4, 6});
    shape(rig, 3, 1, (const uint64_t[]){11});
    cut(rig, 0, (const uint64_t[]){0, 7, 33, 60});
    cut(rig, 2, (const uint64_t[]){0, 8, 8, 24});
    cut(rig, 3, (const uint64_t[]){0, 4, 9, 11});
}

/* Heads and tails of rows, whole rows, whole planes. `file`: 1 where ranks are processes. */
static void expect_cuts(const struct pst_checkpoint *checkpoint, uint32_t file)
{
    const uint32_t one = file, two = 2 * file;
    const struct box cube[] = {
        {0, {0, 0, 0}, {1, 1, 5}},   {0, {0, 1, 0}, {1, 1, 2}},   {one, {0, 1, 2}, {1, 1, 3}},
        {one, {0, 2, 0}, {1, 2, 5}}, {one, {1, 0, 0}, {1, 2, 5}}, {one, {1, 2, 0}, {1, 1, 3}},
        {two, {1, 2, 3}, {1, 1, 2}}, {two, {1, 3, 0}, {1, 1, 5}}, {two, {2, 0, 0}, {1, 4, 5}}};
    const struct box matrix[] = {
        {0, {0, 0}, {1, 6}}, {0, {1, 0}, {1, 2}}, {two, {1, 2}, {1, 4}}, {two, {2, 0}, {2, 6}}};
    const struct box row[] = {{0, {0}, {4}}, {one, {4}, {5}}, {two, {9}, {2}}};

    expect_boxes(checkpoint, "param/layers.0.weight", cube, N(cube));
    expect_boxes(checkpoint, "opt/1/layers.0.weight", cube, N(cube));
    expect_boxes(checkpoint, "param/layers.1.weight", matrix, N(matrix));
    expect_boxes(checkpoint, "opt/0/layers.1.bias", row, N(row));
}

TEST(ranges_of_processes)
{
    struct pst_checkpoint *checkpoint;
    struct pst_error err = {0};
    struct rig rig;
    char *text;

    begin(&rig, mlp, RANKS);
    cut_all(&rig);
    assert_ok(save(&rig, value_of, NULL, &err), &err);
    checkpoint = open_sound(&rig);
    assert_int_equal(checkpoint->manifest.n_tensors, 3 * 6);
    assert_int_equal(checkpoint->manifest.n_files, 3);
    expect_cuts(checkpoint, 1);
    expect_values(checkpoint);
    assert_null(pst_checkpoint_find(checkpoint, "param/layers.1.weight")->xxh3);
    assert_non_null(pst_checkpoint_find(checkpoint, "param/head.weight")->xxh3);
    assert_string_equal(pst_checkpoint_find(checkpoint, "param/head.weight")->pieces[0].key,
                        "param/head.weight");
    pst_checkpoint_close(checkpoint);
    text = saver_manifest(&rig.saves[0]);
    expect_text(text, "\"version\":3,\"min_reader\":3\n");
    free(text);
    end(&rig);
}

/* One process has all ranges, so it sums the whole, and earlier readers may read on. */
TEST(ranges_of_one_process)
{
    struct pst_checkpoint *checkpoint;
    struct pst_error err = {0};
    struct rig rig;
    char *text;

    begin(&rig, mlp, 1);
    cut_all(&rig);
    assert_ok(save(&rig, value_of, NULL, &err), &err);
    checkpoint = open_sound(&rig);
    assert_int_equal(checkpoint->manifest.n_files, 1);
    expect_cuts(checkpoint, 0);
    expect_values(checkpoint);
    for (uint32_t i = 0; i < checkpoint->manifest.n_tensors; i++) {
        assert_non_null(checkpoint->manifest.tensors[i].xxh3);
    }
    pst_checkpoint_close(checkpoint);
    text = saver_manifest(&rig.saves[0]);
    expect_text(text, "\"version\":2,\"min_reader\":1\n");
    free(text);
    end(&rig);
}

/* What one rank saves whole is written as before there were ranges. */
TEST(whole_values)
{
    struct pst_error err = {0};
    struct rig rig;
    char *text, expected[400], sum[PST_HASH_TEXT];
    float values[2];
    struct pst_hash hash;

    begin(&rig, mlp, RANKS);
    cut(&rig, 5, (const uint64_t[]){0, 0, 2, 2}); /* the second rank's */
    assert_ok(save(&rig, value_of, NULL, &err), &err);
    for (uint32_t e = 0; e < 2; e++) {
        values[e] = value_of(NULL, "param/head.bias", e);
    }
    hash = pst_hash_of(values, sizeof values);
    pst_hash_text(&hash, sum);
    snprintf(expected, sizeof expected,
             "{\"name\":\"param/head.bias\",\"dtype\":\"F32\",\"shape\":[2],\"xxh3\":\"%s\","
             "\"pieces\":[{\"file\":1,\"key\":\"param/head.bias\",\"begin\":[0],\"shape\":[2],"
             "\"xxh3\":\"%s\"}]}",
             sum, sum);
    text = saver_manifest(&rig.saves[0]);
    expect_text(text, "\"version\":2,\"min_reader\":1\n");
    expect_text(text, expected);
    assert_null(strchr(text, '#'));
    free(text);
    pst_checkpoint_close(open_sound(&rig));
    end(&rig);
}

/* Rows and planes larger than a piece, of 2^24 elements at most. */
TEST(large_ranges)
{
    static const uint64_t pieces[][2] = {
        {0, 9000000}, /* 2 planes of 3 rows of 9,000,000; the first range: two rows and a head */
        {9000000, 9000000},
        {18000000, 2000000},
        {20000000, 7000000}, /* the second: a tail and a head */
        {27000000, 3000001},
        {30000001, 5999999}, /* the third: a tail and two rows */
        {36000000, 9000000},
        {45000000, 9000000},
        {0, 1 << 24}, /* 2 rows of 20,000,000: a piece of one, its rest up to the border */
        {1 << 24, 17000001 - (1 << 24)},
        {17000001, 2999999}, /* a tail, a piece of a row, its rest */
        {20000000, 1 << 24},
        {20000000 + (1 << 24), 20000000 - (1 << 24)}};
    struct rig rig;
    uint32_t n = 0;

    begin(&rig, mlp, RANKS);
    shape(&rig, 0, 3, (const uint64_t[]){2, 3, 9000000});
    shape(&rig, 2, 2, (const uint64_t[]){2, 20000000});
    cut(&rig, 0, (const uint64_t[]){0, 20000000, 30000001, 54000000});
    cut(&rig, 2, (const uint64_t[]){0, 17000001, 17000001, 40000000});
    saver_layout_make(&rig.layout, rig.session);
    for (uint32_t i = 0; i < rig.layout.n_tensors; i++) {
        const struct saver_tensor *tensor = rig.layout.order[i];

        if (strncmp(tensor->is.name, "param/", 6) != 0 || tensor->is.elems < 1 << 24) {
            continue;
        }
        for (uint32_t k = 0; k < tensor->is.n_pieces; k++, n++) {
            const struct saver_piece *piece = &rig.layout.pieces[tensor->first_piece + k];

            assert_true(n < N(pieces));
            assert_int_equal(piece->elems, pieces[n][1]);
            assert_int_equal(pst_checkpoint_box(&tensor->is, &piece->is, pieces[n][0]),
                             pieces[n][1]);
            assert_true(piece->offset - tensor->offset == pieces[n][0] - tensor->first);
        }
    }
    assert_int_equal(n, N(pieces));
    end(&rig);
}

/* Ranges that leave elements out or have them twice make no checkpoint. */
TEST(no_cover)
{
    static const struct {
        uint64_t borders[3][2];
        const char *message;
    } cases[] = {
        {{{0, 3}, {4, 12}, {12, 12}}, "param/layers.0.weight: piece 1 does not begin where"},
        {{{0, 6}, {3, 12}, {12, 12}}, "param/layers.0.weight: piece 1 does not begin where"},
        {{{0, 12}, {0, 12}, {12, 12}}, "param/layers.0.weight: piece 1 does not begin where"},
        {{{3, 6}, {6, 12}, {12, 12}}, "param/layers.0.weight: piece 0 does not begin where"},
        {{{0, 3}, {3, 9}, {12, 12}}, "param/layers.0.weight: they hold 9 of 12 elements"},
    };

    for (uint32_t i = 0; i < N(cases); i++) {
        struct pst_error err = {0};
        struct rig rig;

        begin(&rig, mlp, RANKS);
        shape(&rig, 0, 1, (const uint64_t[]){12});
        for (uint32_t r = 0; r < RANKS; r++) {
            struct pst_program_param *param = &rig.session->planned.programs[r]->params[0];

            param->shard = (struct pst_shard){cases[i].borders[r][0],
                                              cases[i].borders[r][1] - cases[i].borders[r][0]};
            param->owner = true;
            /* slots have the same ranges, and names before these */
            param->optimizer[0] = param->optimizer[1] = PST_NONE;
        }
        assert_int_equal(save(&rig, value_of, NULL, &err), PST_ERR_IO);
        expect_text(err.message, cases[i].message);
        assert_int_not_equal(access(rig.path, F_OK), 0);
        end(&rig);
    }
}

/* A byte of the second process's shard: nothing else has a sum of these values. */
TEST(damaged_piece)
{
    struct pst_checkpoint *checkpoint;
    struct pst_error err = {0};
    struct rig rig;
    float values[11];
    char path[256];
    int fd;

    begin(&rig, mlp, RANKS);
    cut_all(&rig);
    assert_ok(save(&rig, value_of, NULL, &err), &err);
    snprintf(path, sizeof path, "%s/shard-00001.safetensors", rig.path);
    fd = open(path, O_WRONLY);
    assert_int_equal(lseek(fd, -1, SEEK_END) > 0, 1);
    assert_int_equal(write(fd, "!", 1), 1);
    close(fd);
    assert_int_equal(pst_checkpoint_check(rig.path, tell, &err), 2); /* the piece and the file */
    assert_ok(pst_checkpoint_open(rig.path, &checkpoint, &err), &err);
    assert_int_equal(pst_checkpoint_read(checkpoint,
                                         pst_checkpoint_find(checkpoint, "param/layers.1.bias"),
                                         values, &err),
                     PST_ERR_CONFIG);
    assert_string_equal(err.kind, "checkpoint.damaged");
    expect_text(err.message, "tensor param/layers.1.bias#000001 is damaged: checksum mismatch");
    pst_checkpoint_close(checkpoint);
    end(&rig);
}

/* What differs is told once, not by each rank that has a range of it. */
TEST(one_difference)
{
    struct pst_checkpoint *checkpoint;
    struct pst_error err = {0};
    struct rig rig;
    bool unused;

    begin(&rig, mlp, RANKS);
    cut_all(&rig);
    assert_ok(save(&rig, value_of, NULL, &err), &err);
    checkpoint = open_sound(&rig);
    assert_ok(
        pst_resume_fits(checkpoint, rig.session, 0, &(struct pst_resume_request){0}, &unused, &err),
        &err);
    shape(&rig, 3, 2, (const uint64_t[]){11, 1});
    assert_int_equal(
        pst_resume_fits(checkpoint, rig.session, 0, &(struct pst_resume_request){0}, &unused, &err),
        PST_ERR_CONFIG);
    expect_text(err.message,
                "another model: 1 difference, such as: param/layers.1.bias is [11, 1], "
                "in the checkpoint [11]");
    pst_checkpoint_close(checkpoint);
    end(&rig);
}

/* --- parts -------------------------------------------------------------------------------------
 */

static const char six[] =
    "model = { use = \"mlp\", layers = 2, inputs = 3, hidden = 4, classes = 2 }\n"
    "data = { kind = \"synthetic\" }\n"
    "cluster = { devices = 6 }\n"
    "train = { batch = 6, microbatch = 6, degrees = [6], optimizer = \"adam\" }\n"
    "partitioner = { use = \"uniform\" }\n"
    "scheduler = { use = \"1f1b\" }\n"
    "plugins = { isolate = \"never\" }\n";

/* From here on the graph is that of one of so many parts. */
static void part(struct rig *rig, uint32_t parts)
{
    rig->session->graph->parts = parts;
    rig->session->planned.plan->stages[0].tensor = parts;
}

/* A parameter is split along an axis of so many sections, which `shape` gave. */
static void split(struct rig *rig, uint32_t parameter, struct pst_box box)
{
    struct pst_parameter *it = &rig->session->graph->params[parameter];

    it->box = box;
    it->elems /= it->dims[box.axis];
    it->dims[box.axis] = (it->dims[box.axis] + box.padding) / box.parts;
    it->elems *= it->dims[box.axis];
}

/* The n-th replica saves its n-th of a parameter, with `zero`, else the first one all of it; if the
   parameter is not split, of that its part 0. */
static void share(struct rig *rig, uint32_t parameter, bool zero)
{
    const struct pst_plan *plan = rig->session->planned.plan;
    const struct pst_parameter *it = &rig->session->graph->params[parameter];
    const uint64_t parts = rig->session->graph->parts, n = plan->n_devices / parts;

    for (uint32_t r = 0; r < plan->n_devices; r++) {
        struct pst_program_param *param = &rig->session->planned.programs[r]->params[parameter];
        const uint64_t replica = r / parts;
        const uint64_t begin = zero ? it->elems * replica / n : 0;

        param->shard =
            (struct pst_shard){begin, zero ? it->elems * (replica + 1) / n - begin : it->elems};
        param->owner = (zero || replica == 0) && (r % parts == 0 || it->box.parts > 1);
    }
}

/* Splits along the first, a middle and the last axis, of two and three sections, or of one with
   padding; one parameter is whole. */
static void split_all(struct rig *rig, uint32_t parts, bool zero)
{
    part(rig, parts);
    shape(rig, 0, 2, (const uint64_t[]){5, 24});
    shape(rig, 1, 1, (const uint64_t[]){24});
    shape(rig, 2, 2, (const uint64_t[]){5, 7});
    shape(rig, 4, 3, (const uint64_t[]){3, 18, 2});
    shape(rig, 5, 2, (const uint64_t[]){4, 11});
    split(rig, 0, (struct pst_box){parts, 1, 3, {12, 6, 6}, 0});
    split(rig, 1, (struct pst_box){parts, 0, 3, {12, 6, 6}, 0});
    split(rig, 2, (struct pst_box){parts, 0, 1, {5}, 1});
    split(rig, 5, (struct pst_box){parts, 1, 1, {11}, 1});
    split(rig, 4, (struct pst_box){parts, 1, 2, {6, 12}, 0});
    for (uint32_t i = 0; i < rig->session->graph->n_params; i++) {
        share(rig, i, zero);
    }
}

TEST(parts)
{
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t parts = 2 + i % 2;
        const bool zero = i / 2 % 2 == 1, apart = i / 4 == 1;
        struct pst_checkpoint *checkpoint;
        const struct pst_checkpoint_tensor *tensor;
        struct pst_error err = {0};
        struct rig rig;
        char *text, expected[200];

        begin(&rig, six, apart ? 6 : 1);
        split_all(&rig, parts, zero);
        assert_ok(save(&rig, value_of, NULL, &err), &err);
        checkpoint = open_sound(&rig);
        assert_int_equal(checkpoint->manifest.n_tensors, 3 * 6);
        expect_values(checkpoint);
        tensor = pst_checkpoint_find(checkpoint, "opt/1/layers.0.weight");
        assert_int_equal(tensor->rank, 2);
        assert_true(tensor->shape[0] == 5 && tensor->shape[1] == 24 && tensor->elems == 5 * 24);
        assert_true((tensor->xxh3 == NULL) == apart);
        assert_int_equal(pst_checkpoint_find(checkpoint, "param/layers.1.bias")->box.parts, 0);
        assert_true(pst_checkpoint_find(checkpoint, "param/layers.1.bias")->xxh3 != NULL ||
                    (apart && zero));
        pst_checkpoint_close(checkpoint);
        text = saver_manifest(&rig.saves[0]);
        expect_text(text, "\"version\":4,\"min_reader\":4\n");
        snprintf(expected, sizeof expected,
                 "\"shape\":[5,24],\"split\":{\"axis\":1,\"sections\":[12,6,6],\"parts\":%u}",
                 parts);
        expect_text(text, expected);
        snprintf(expected, sizeof expected,
                 "\"shape\":[5,7],\"split\":{\"axis\":0,\"sections\":[5],\"parts\":%u,"
                 "\"padding\":1}",
                 parts);
        expect_text(text, expected);
        snprintf(expected, sizeof expected, "\"replicas\":\"%u\",\"tensor\":\"%u\"", 6 / parts,
                 parts);
        expect_text(text, expected);
        free(text);
        end(&rig);
    }
}

/* Boxes are of the part, and the second part's follow those of the first: [4, 6] of [4, 12]. */
TEST(boxes_of_parts)
{
    const struct box boxes[] = {{0, {0, 0}, {1, 6}}, {0, {1, 0}, {1, 2}}, {2, {1, 2}, {1, 4}},
                                {2, {2, 0}, {1, 4}}, {4, {2, 4}, {1, 2}}, {4, {3, 0}, {1, 6}},
                                {1, {0, 0}, {1, 6}}, {1, {1, 0}, {1, 2}}, {3, {1, 2}, {1, 4}},
                                {3, {2, 0}, {1, 4}}, {5, {2, 4}, {1, 2}}, {5, {3, 0}, {1, 6}}};
    struct pst_checkpoint *checkpoint;
    struct pst_error err = {0};
    struct rig rig;

    begin(&rig, six, 6);
    part(&rig, 2);
    shape(&rig, 0, 2, (const uint64_t[]){4, 12});
    split(&rig, 0, (struct pst_box){2, 1, 3, {4, 4, 4}, 0});
    for (uint32_t i = 0; i < rig.session->graph->n_params; i++) {
        share(&rig, i, true);
    }
    assert_ok(save(&rig, value_of, NULL, &err), &err);
    checkpoint = open_sound(&rig);
    expect_boxes(checkpoint, "param/layers.0.weight", boxes, N(boxes));
    expect_values(checkpoint);
    pst_checkpoint_close(checkpoint);
    end(&rig);
}

/* A part that no rank saves, one that two ranks save, a hole in a part. */
TEST(no_cover_by_parts)
{
    static const struct {
        uint64_t borders[MOST][2];
        const char *message;
    } cases[] = {
        {{{0, 6}, {0, 0}}, "param/layers.0.weight: they hold 6 of 12 elements"},
        {{{0, 0}, {0, 6}}, "param/layers.0.weight: piece 0 does not begin where"},
        {{{0, 6}, {0, 0}, {0, 6}}, "param/layers.0.weight: piece 1 does not begin where"},
        {{{0, 6}, {0, 6}, {0, 6}}, "param/layers.0.weight: piece 1 does not begin where"},
        {{{0, 6}, {0, 6}, {0, 0}, {0, 6}}, "param/layers.0.weight: piece 2 does not begin where"},
        {{{0, 3}, {0, 6}, {4, 6}}, "param/layers.0.weight: piece 1 does not begin where"},
        {{{0, 3}, {0, 6}, {2, 6}}, "param/layers.0.weight: piece 1 does not begin where"},
    };

    for (uint32_t i = 0; i < N(cases); i++) {
        struct pst_error err = {0};
        struct rig rig;

        begin(&rig, six, 6);
        part(&rig, 2);
        shape(&rig, 0, 1, (const uint64_t[]){12});
        split(&rig, 0, (struct pst_box){2, 0, 1, {12}, 0});
        for (uint32_t p = 0; p < rig.session->graph->n_params; p++) {
            share(&rig, p, false);
        }
        for (uint32_t r = 0; r < 6; r++) {
            const uint64_t *borders = cases[i].borders[r];
            struct pst_program_param *param = &rig.session->planned.programs[r]->params[0];

            param->shard = (struct pst_shard){borders[0], borders[1] - borders[0]};
            param->owner = true;
            param->optimizer[0] = param->optimizer[1] = PST_NONE;
        }
        assert_int_equal(save(&rig, value_of, NULL, &err), PST_ERR_IO);
        expect_text(err.message, cases[i].message);
        assert_int_not_equal(access(rig.path, F_OK), 0);
        end(&rig);
    }
}

/* The run that goes on may have another number of parts; another shape of the whole is told once.
 */
TEST(parts_may_change)
{
    struct pst_resume_request request = {0};
    struct pst_checkpoint *checkpoint;
    struct pst_error err = {0};
    struct rig rig;
    bool unused;

    begin(&rig, six, 1);
    split_all(&rig, 2, true);
    assert_ok(save(&rig, value_of, NULL, &err), &err);
    checkpoint = open_sound(&rig);
    split_all(&rig, 3, false);
    assert_ok(pst_resume_fits(checkpoint, rig.session, 0, &request, &unused, &err), &err);
    shape(&rig, 2, 2, (const uint64_t[]){12, 7});
    split(&rig, 2, (struct pst_box){3, 0, 1, {12}, 0});
    share(&rig, 2, false);
    assert_int_equal(pst_resume_fits(checkpoint, rig.session, 0, &request, &unused, &err),
                     PST_ERR_CONFIG);
    expect_text(err.message, "another model: 1 difference, such as: param/layers.1.weight is "
                             "[12, 7], in the checkpoint [5, 7]");
    pst_checkpoint_close(checkpoint);
    end(&rig);
}

/* What a run begins with is of the whole model, and operators have other numbers there. */
TEST(begin_with_whole_values)
{
    struct pst_exec_source source;
    struct pst_begin *from = NULL;
    struct pst_error err = {0};
    struct pst_graph local, *part = &local;
    struct rig rig;
    uint32_t *op_of, bn = 0;
    float values[400];
    char name[100];
    bool found;

    begin(&rig,
          "model = { use = \"resnet\", depth = \"custom\", image = 8, stages = 1, blocks = 1, "
          "width = 3, classes = 2 }\n"
          "data = { kind = \"synthetic\" }\n"
          "cluster = { devices = 1 }\n"
          "train = { batch = 2, microbatch = 2 }\n"
          "partitioner = { use = \"uniform\" }\n"
          "scheduler = { use = \"1f1b\" }\n"
          "plugins = { isolate = \"never\" }\n",
          1);
    assert_ok(save(&rig, value_of, NULL, &err), &err);
    while (rig.session->graph->ops[bn].n_state < 2) {
        bn++;
    }
    assert_true(bn > 0);
    local = *rig.session->graph;
    local.whole = rig.session->graph;
    local.digest++;
    local.op_of = op_of = calloc(local.n_ops, sizeof *op_of);
    op_of[0] = bn;
    assert_ok(pst_begin_open(rig.path, &rig.job, &part, true, &from, &err), &err);
    source = *pst_begin_source(from);
    assert_ok(source.load(source.context, &(struct pst_state_key){PST_STATE_OPERATOR, 0, 1},
                          local.ops[bn].state_elems[1], values, &found, &err),
              &err);
    snprintf(name, sizeof name, "state/1/%s", local.ops[bn].name);
    assert_true(found && values[2] == value_of(NULL, name, 2));
    pst_begin_close(from);
    free(op_of);
    end(&rig);
}

/* --- the program -------------------------------------------------------------------------------
 */

#define GPT                                                                                        \
    "model = { use = \"gpt\", layers = 1, dim = 6, heads = 2, context = 4, vocab = 7 }\n"          \
    "data = { kind = \"synthetic\" }\n"                                                            \
    "train = { steps = %d, batch = 6, microbatch = 3, optimizer = \"adam\", eval_batches = 0, "    \
    "schedule = \"constant\"%s }\n"                                                                \
    "partitioner = { use = \"uniform\" }\n"                                                        \
    "scheduler = { use = \"1f1b\" }\n"                                                             \
    "plugins = { isolate = \"never\" }\n"

/* The values of another checkpoint; the last tensor is kept. */
struct copying {
    struct pst_checkpoint *from;
    const struct pst_checkpoint_tensor *tensor;
    float *values;
};

static float copy_of(void *context, const char *name, uint64_t e)
{
    struct copying *copying = context;
    struct pst_error err = {0};

    if (copying->tensor == NULL || strcmp(copying->tensor->name, name) != 0) {
        copying->tensor = pst_checkpoint_find(copying->from, name);
        assert_non_null(copying->tensor);
        free(copying->values);
        copying->values = malloc(copying->tensor->elems * sizeof *copying->values);
        assert_ok(pst_checkpoint_read(copying->from, copying->tensor, copying->values, &err), &err);
    }
    return copying->values[e];
}

/* Both have the same values. */
static void compare(const char *one, const char *other)
{
    struct pst_checkpoint *a = NULL, *b = NULL;
    struct pst_error err = {0};

    assert_ok(pst_checkpoint_open(one, &a, &err), &err);
    assert_ok(pst_checkpoint_open(other, &b, &err), &err);
    assert_int_equal(a->manifest.n_tensors, b->manifest.n_tensors);
    for (uint32_t i = 0; i < a->manifest.n_tensors; i++) {
        assert_string_equal(a->manifest.tensors[i].name, b->manifest.tensors[i].name);
        assert_string_equal(a->manifest.tensors[i].xxh3, b->manifest.tensors[i].xxh3);
    }
    pst_checkpoint_close(a);
    pst_checkpoint_close(b);
}

static void expect_run(struct outcome outcome)
{
    expect_code(&outcome, 0);
    outcome_finish(&outcome);
}

/* Three ranks save ranges of each parameter, or are the parts of a replica. */
static void cut_or_split(struct rig *rig, bool parts)
{
    if (parts) {
        part(rig, RANKS);
    }
    for (uint32_t i = 0; i < rig->session->graph->n_params; i++) {
        const struct pst_parameter *it = &rig->session->graph->params[i];
        const uint64_t n = it->elems, axis = i % it->rank, places = it->dims[axis];

        if (!parts) {
            cut(rig, i, (const uint64_t[]){0, n / 3, n / 2 + 1, n});
            continue;
        }
        if (places % 9 == 0) {
            split(rig, i,
                  (struct pst_box){3, (uint32_t)axis, 3, {places / 3, places / 3, places / 3}, 0});
        } else if (places % 3 == 0) {
            split(rig, i, (struct pst_box){3, (uint32_t)axis, 1, {places}, 0});
        } else {
            split(rig, i, (struct pst_box){3, (uint32_t)axis, 1, {places}, 3 - places % 3});
        }
        share(rig, i, false);
    }
}

/* `check` finds it sound, `export weights` writes the same bytes, and a run goes on from it as from
   the one that it was made of. */
static void program_reads(bool parts)
{
    struct copying copying = {.from = NULL};
    struct pst_error err = {0};
    struct rig rig;
    char job[800], config[160], from[200], folder[256], one[200], other[200], command[600];

    snprintf(job, sizeof job, GPT "cluster = { devices = 3 }\n", STEP, ", degrees = [3]");
    begin(&rig, job, RANKS);
    cut_or_split(&rig, parts);
    snprintf(job, sizeof job, GPT, STEP, "");
    snprintf(config, sizeof config, "%s", support_write("job.toml", job));
    snprintf(from, sizeof from, "%s/step-%012d", support_path("whole"), STEP);
    snprintf(folder, sizeof folder, "checkpoint.folder=%s", support_path("whole"));
    expect_run(penstock("train", config, "-q", "--set", folder));
    assert_ok(pst_checkpoint_open(from, &copying.from, &err), &err);
    rig.moment.samples = copying.from->manifest.samples;
    rig.moment.updates = copying.from->manifest.updates;
    rig.moment.epoch = copying.from->manifest.epoch;
    rig.moment.counts = copying.from->manifest.counts;
    assert_ok(save(&rig, copy_of, &copying, &err), &err);
    pst_checkpoint_close(copying.from);
    free(copying.values);
    expect_run(penstock("check", rig.path));

    snprintf(one, sizeof one, "%s", support_path("one"));
    snprintf(other, sizeof other, "%s", support_path("other"));
    expect_run(penstock("export", "weights", from, "-o", one));
    expect_run(penstock("export", "weights", rig.path, "-o", other));
    snprintf(command, sizeof command, "diff -r '%s' '%s'", one, other);
    assert_int_equal(system(command), 0);

    for (uint32_t i = 0; i < 2; i++) {
        snprintf(folder, sizeof folder, "checkpoint.folder=%s", i == 0 ? one : other);
        expect_run(penstock("train", config, "-q", "--set", "train.steps=9", "--allow-change",
                            "--set", folder, "--resume", i == 0 ? from : rig.path));
    }
    strcat(one, "/step-000000000009");
    strcat(other, "/step-000000000009");
    compare(one, other);
    end(&rig);
}

TEST(program_reads_ranges)
{
    program_reads(false);
}

TEST(program_reads_parts)
{
    program_reads(true);
}
