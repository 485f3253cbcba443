/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest.json: what is written is read back as it was, and each rule that a reader keeps has a
 * text that breaks it alone.
 */
#include "test.h"

#include "support.h"
#include "checkpoint/checkpoint.h"

#define SUM "0123456789abcdef0123456789abcdef"

/* Two tensors in one file, one of them in two pieces. */
static void make(struct pst_manifest *manifest)
{
    static struct pst_checkpoint_file files[] = {{"shard-00000.safetensors", 1000, SUM}};
    static struct pst_checkpoint_piece one[] = {{0, "opt/0/w", {0}, {3}, SUM, 0}};
    static struct pst_checkpoint_piece two[] = {{0, "param/w#000000", {0, 0}, {1, 3}, SUM, 0},
                                                {0, "param/w#000001", {1, 0}, {1, 3}, SUM, 0}};
    static struct pst_checkpoint_tensor tensors[] = {
        {"opt/0/w", 1, {3}, 3, SUM, 1, one, {0}},
        {"param/w", 2, {2, 3}, 6, SUM, 2, two, {0}},
    };

    *manifest =
        (struct pst_manifest){.run = "feed",
                              .written_by = "penstock 1",
                              .step = 7,
                              .updates = 6,
                              .samples = (uint64_t)1 << 60,
                              .model = "mlp",
                              .model_digest = "xxh3:1",
                              .n_parameters = 1,
                              .data_digest = "xxh3:2",
                              .data_seed = 3,
                              .epoch = 4,
                              .batch = 5,
                              .seed = UINT64_MAX,
                              .optimizer = "sgd",
                              .skipped = 1,
                              .numerics = {"cpu", "auto", "f32", "1", "2", "1", "1", "false"},
                              .plan_digest = "xxh3:3",
                              .partitioner = "p 1",
                              .scheduler = "s 1",
                              .memopt = "",
                              .rule = "sync",
                              .drain_every = 8,
                              .drained = true,
                              .folder = "/a/run",
                              .config = "{\"train\":{\"steps\":9}}",
                              .n_files = 1,
                              .n_tensors = 2,
                              .files = files,
                              .tensors = tensors};
}

static pst_status parse(const char *text, struct pst_error *err)
{
    struct pst_arena arena = {0};
    struct pst_manifest manifest;
    pst_status st = pst_manifest_parse("m", text, strlen(text), &arena, &manifest, err);

    pst_arena_finish(&arena);
    return st;
}

TEST(round_trip)
{
    struct pst_manifest manifest, read;
    struct pst_arena arena = {0};
    struct pst_error err = {0};
    char *text, *again;

    make(&manifest);
    text = pst_manifest_write(&manifest);
    assert_int_equal(pst_manifest_parse("m", text, strlen(text), &arena, &read, &err), PST_OK);
    again = pst_manifest_write(&read);
    assert_string_equal(text, again);
    assert_true(read.samples == (uint64_t)1 << 60 && read.seed == UINT64_MAX && read.step == 7);
    assert_true(read.tensors[1].elems == 6 && read.tensors[1].pieces[1].begin[0] == 1);
    assert_string_equal(read.config, "{\"train\":{\"steps\":9}}");
    pst_arena_finish(&arena);
    free(text);
    free(again);
}

/* text with the first `from` as `to`; free() it. */
static char *with(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    char *changed;

    if (at == NULL) {
        fail_msg("no %s in %s", from, text);
        return NULL;
    }
    changed = malloc(strlen(text) + strlen(to) + 1);
    sprintf(changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return changed;
}

TEST(rules)
{
    static const char *const cases[][3] = {
        {"penstock-checkpoint", "penstock-plan", "format: \"penstock-plan\""},
        {"\"shard-00000.safetensors\"", "\"../shard\"", "not the plain name"},
        {"\"shard-00000.safetensors\"", "\"a/b\"", "not the plain name"},
        {"\"shard-00000.safetensors\"", "\"\"", "not the plain name"},
        {"\"xxh3\":\"0", "\"xxh3\":\"G", "expected a checksum"},
        {"\"xxh3\":\"0", "\"xxh3\":\"", "expected a checksum"},
        {"[3],\"xxh3\":\"" SUM "\",", "[3],", "xxh3: missing; opt/0/w could lack it"},
        {"\"opt/0/w\",\"dtype\"", "\"param/w\",\"dtype\"", "names must ascend"},
        {"\"opt/0/w\",\"dtype\"", "\"zero\",\"dtype\"", "names must ascend"},
        {"\"F32\"", "\"F16\"", "expected \"F32\""},
        {"\"file\":0", "\"file\":1", "1 of 1 files"},
        {"\"file\":0", "\"file\":-1", "expected an integer"},
        {"\"shape\":[3]", "\"shape\":[4]", "they hold 3 of 4 elements"},
        {"\"shape\":[3]", "\"shape\":[0]", "no elements"},
        {"\"shape\":[3]", "\"shape\":[16777216,16777216]", "of the tensor's 2 dimensions"},
        {"\"shape\":[3]", "\"shape\":[1,1,1,1,1,1,1,1,3]", "at most 8"},
        {"\"shape\":[2,3]", "\"shape\":[1099511627776,1099511627776]", "2^48 or more"},
        {"\"shape\":[2,3]", "\"shape\":[3,2]", "does not begin where"},
        {"\"begin\":[1,0]", "\"begin\":[0,0]", "piece 1 does not begin where"},
        {"\"begin\":[1,0]", "\"begin\":[\"18446744073709551615\",0]", "piece 1 does not begin"},
        {"\"begin\":[1,0],\"shape\":[1,3]", "\"begin\":[1,0],\"shape\":[2,3]", "piece 1 does not"},
        {"\"begin\":[0,0],\"shape\":[1,3]", "\"begin\":[0,0],\"shape\":[2,1]", "piece 0 does not"},
        {"\"step\":7", "\"step\":7,\"stop\":1", "unknown key \"stop\""},
        {"\"run\":\"feed\"", "\"run\":null", "null, expected a string"},
        {"\"epoch\":4,", "", "epoch: missing"},
        {"\"config\":{", "\"config\":3,\"x\":{", "expected an object"},
        {"\"drained\":true", "\"drained\":1", "expected true or false"},
        {"\"philox4x32-10\"", "\"mt19937\"", "expected \"philox4x32-10\""},
        {"{\"format\"", "{\"format\":1,\"format\"", "duplicate"},
    };
    struct pst_manifest manifest;
    struct pst_error err;
    char *text;

    make(&manifest);
    text = pst_manifest_write(&manifest);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *changed = with(text, cases[i][0], cases[i][1]);

        memset(&err, 0, sizeof err);
        if (parse(changed, &err) == PST_OK || strstr(err.message, cases[i][2]) == NULL) {
            fail_msg("%s for %s: \"%s\", expected %s", cases[i][1], cases[i][0], err.message,
                     cases[i][2]);
        }
        assert_string_equal(err.kind, "checkpoint.damaged");
        free(changed);
    }
    free(text);
}

/* The manifest is written as it was read; with each change, {text, in its place, words}, it is
   refused. */
static void check_changes(const char *text, struct pst_manifest *read,
                          const char *const (*cases)[3], size_t n)
{
    char *again = pst_manifest_write(read);

    assert_string_equal(text, again);
    free(again);
    for (size_t i = 0; i < n; i++) {
        struct pst_error err = {0};
        char *changed = with(text, cases[i][0], cases[i][1]);

        if (parse(changed, &err) == PST_OK || strstr(err.message, cases[i][2]) == NULL) {
            fail_msg("%s for %s: \"%s\"", cases[i][1], cases[i][0], err.message);
        }
        assert_string_equal(err.kind, "checkpoint.damaged");
        free(changed);
    }
}

/* A tensor that two processes wrote, the second one's piece in the middle; without a sum of its
 * own. */
static char *write_split(void)
{
    struct pst_checkpoint_file files[] = {{"shard-00000.safetensors", 1000, SUM},
                                          {"shard-00001.safetensors", 1000, SUM}};
    struct pst_checkpoint_piece pieces[] = {{0, "param/w#000000", {0, 0}, {1, 2}, SUM, 0},
                                            {1, "param/w#000001", {0, 2}, {1, 1}, SUM, 0},
                                            {0, "param/w#000002", {1, 0}, {1, 3}, SUM, 0}};
    struct pst_checkpoint_tensor tensor = {"param/w", 2, {2, 3}, 6, NULL, 3, pieces, {0}};
    struct pst_manifest manifest;

    make(&manifest);
    manifest.n_files = 2;
    manifest.files = files;
    manifest.n_tensors = 1;
    manifest.tensors = &tensor;
    return pst_manifest_write(&manifest);
}

#define PIECE(file, key, begin, shape)                                                             \
    "{\"file\":" file ",\"key\":\"param/w#00000" key "\",\"begin\":[" begin "],\"shape\":[" shape  \
    "],\"xxh3\":\"" SUM "\"}"
#define MIDDLE PIECE("1", "1", "0,2", "1,1")

TEST(split)
{
    static const char *const cases[][3] = {
        {"," MIDDLE, "", "tensors[0].pieces: param/w: piece 1 does not begin where"},
        {"," MIDDLE, "," MIDDLE "," MIDDLE, "param/w: piece 2 does not begin where"},
        {MIDDLE, PIECE("1", "1", "0,1", "1,2"), "param/w: piece 1 does not begin where"},
        {MIDDLE, PIECE("1", "1", "0,2", "2,1"), "param/w: piece 1 does not begin where"},
        {"," PIECE("0", "2", "1,0", "1,3"), "", "param/w: they hold 3 of 6 elements"},
        {"\"file\":1", "\"file\":2", "2 of 2 files"},
        {"\"file\":1", "\"file\":0", "xxh3: missing; param/w could lack it"},
        {"\"version\":3", "\"version\":2", "xxh3: missing; param/w could lack it"},
        {"[2,3],", "[2,3],\"xxh3\":null,", "null, expected a string"},
    };
    struct pst_arena arena = {0};
    struct pst_manifest read;
    struct pst_error err = {0};
    char *text = write_split();

    assert_non_null(strstr(text, "\"version\":3,\"min_reader\":3"));
    assert_int_equal(pst_manifest_parse("m", text, strlen(text), &arena, &read, &err), PST_OK);
    assert_null(read.tensors[0].xxh3);
    assert_int_equal(read.tensors[0].pieces[1].file, 1);
    check_changes(text, &read, cases, sizeof cases / sizeof *cases);
    pst_arena_finish(&arena);
    free(text);
}

/* The columns of a matrix, two sections of 2 and 4, in two parts, the second one in two pieces. */
static char *write_parts(void)
{
    struct pst_checkpoint_piece pieces[] = {{0, "param/w#000000", {0, 0}, {2, 3}, SUM, 0},
                                            {0, "param/w#000001", {0, 0}, {1, 3}, SUM, 1},
                                            {0, "param/w#000002", {1, 0}, {1, 3}, SUM, 1}};
    struct pst_checkpoint_tensor tensor = {"param/w", 2, {2, 6}, 12,
                                           SUM,       3, pieces, {2, 1, 2, {2, 4}, 0}};
    struct pst_manifest manifest;

    make(&manifest);
    manifest.numerics[PST_NUMERIC_TENSOR] = "2";
    manifest.n_tensors = 1;
    manifest.tensors = &tensor;
    return pst_manifest_write(&manifest);
}

TEST(parts)
{
    static const char *const cases[][3] = {
        {"\"axis\":1", "\"axis\":2", "param/w: its sections are not those of an axis"},
        {"\"axis\":1", "\"axis\":0", "param/w: its sections are not those of an axis"},
        {"\"axis\":1", "\"axis\":-1", "expected an integer"},
        {"\"axis\":1,", "", "split.axis: missing"},
        {"[2,4]", "[2,6]", "param/w: its sections are not those of an axis"},
        {"[2,4]", "[4]", "param/w: its sections are not those of an axis"},
        {"[2,4]", "[]", "param/w: its sections are not those of an axis"},
        {"[2,4]", "[2,0,4]", "param/w: its sections are not those of an axis"},
        {"[2,4]", "[3,3]", "each a multiple of 2"},
        {"[2,4]", "[8,\"18446744073709551614\"]", "its sections are not those of an axis"},
        {"[2,4]", "[2,2,1,1]", "4 sections, expected at most 3"},
        {"\"parts\":2", "\"parts\":0", "parts: 0, expected 2 or more"},
        {"\"parts\":2", "\"parts\":1", "parts: 1, expected 2 or more"},
        {"\"parts\":2", "\"parts\":3", "each a multiple of 3"},
        {"\"parts\":2", "\"parts\":4294967294", "each a multiple of 4294967294"},
        {"\"parts\":2", "\"parts\":2,\"part\":1", "unknown key \"part\""},
        {"\"part\":0", "\"part\":1", "piece 0 does not begin where"},
        {"\"part\":1", "\"part\":0", "piece 1 does not begin where"},
        {"\"part\":1", "\"part\":2", "piece 1 does not begin where"},
        {"\"part\":1", "\"part\":4294967294", "piece 1 does not begin where"},
        {"\"part\":1,", "", "pieces[1].part: missing"},
        {"\"shape\":[2,3]", "\"shape\":[1,6]", "piece 0 does not begin where"},
        {"\"shape\":[2,3]", "\"shape\":[1,3]", "piece 1 does not begin where"},
        {"\"begin\":[1,0]", "\"begin\":[0,0]", "piece 2 does not begin where"},
        {"\"version\":4,\"min_reader\":4", "\"version\":3,\"min_reader\":3",
         "unknown key \"tensor\""},
        {",\"tensor\":\"2\"", ",\"tensor\":null", "null, expected a string"},
    };
    struct pst_arena arena = {0};
    struct pst_manifest read;
    struct pst_error err = {0};
    char *text = write_parts();

    assert_non_null(strstr(text, "\"version\":4,\"min_reader\":4"));
    assert_int_equal(pst_manifest_parse("m", text, strlen(text), &arena, &read, &err), PST_OK);
    assert_int_equal(read.tensors[0].elems, 12);
    check_changes(text, &read, cases, sizeof cases / sizeof *cases);
    pst_arena_finish(&arena);
    free(text);
}

/* Replicas that sum the gradients of each micro-batch, with parts or without: earlier readers,
   which know no other sums, refuse it. Manifests without the member have ZeRO 0 or 1. */
TEST(sums_of_each_microbatch)
{
    static const char *const tensors[] = {"1", "2"};

    for (uint32_t i = 0; i < 2; i++) {
        static const char *const cases[][3] = {
            {",\"zero\":\"2 or 3\"", ",\"zero\":2", "numerics.zero: of another type"},
            {"\"version\":5,\"min_reader\":5", "\"version\":4,\"min_reader\":4",
             "unknown key \"zero\""},
        };
        struct pst_manifest manifest, read;
        struct pst_arena arena = {0};
        struct pst_error err = {0};
        char *text, *again, *without;

        make(&manifest);
        manifest.numerics[PST_NUMERIC_ZERO] = PST_CHECKPOINT_SUMMED;
        manifest.numerics[PST_NUMERIC_TENSOR] = tensors[i];
        text = pst_manifest_write(&manifest);
        assert_non_null(strstr(text, "\"version\":5,\"min_reader\":5"));
        assert_int_equal(pst_manifest_parse("m", text, strlen(text), &arena, &read, &err), PST_OK);
        assert_string_equal(read.numerics[PST_NUMERIC_ZERO], PST_CHECKPOINT_SUMMED);
        assert_string_equal(read.numerics[PST_NUMERIC_TENSOR], tensors[i]);
        again = pst_manifest_write(&read);
        assert_string_equal(text, again);
        check_changes(text, &read, cases, sizeof cases / sizeof *cases);
        without = with(text, ",\"zero\":\"2 or 3\"", "");
        assert_int_equal(pst_manifest_parse("m", without, strlen(without), &arena, &read, &err),
                         PST_OK);
        assert_string_equal(read.numerics[PST_NUMERIC_ZERO], "0 or 1");
        pst_arena_finish(&arena);
        free(text);
        free(again);
        free(without);
    }
}

/* Every text that is cut short is refused. */
TEST(cut_short)
{
    struct pst_manifest manifest;
    struct pst_error err = {0};
    char *text;
    size_t length;

    make(&manifest);
    text = pst_manifest_write(&manifest);
    length = strlen(text);
    while (text[length - 1] != '}') {
        length--;
    }
    for (size_t i = length - 1; i > 0; i--) {
        text[i] = '\0';
        assert_int_equal(parse(text, &err), PST_ERR_CONFIG);
    }
    free(text);
}

/* A later minor version says that it can be read, and has members that this one does not know. */
TEST(versions)
{
    struct pst_manifest manifest;
    struct pst_error err = {0};
    char *text, *later, *other;

    make(&manifest);
    text = pst_manifest_write(&manifest);
    later = with(text, "\"version\":2", "\"version\":6");
    other = with(later, "\"step\":7", "\"step\":7,\"stop\":[1]");
    assert_int_equal(parse(other, &err), PST_OK);
    free(other);
    other = with(later, "\"min_reader\":1", "\"min_reader\":6");
    assert_int_equal(parse(other, &err), PST_ERR_CONFIG);
    assert_string_equal(err.kind, "input.unsupported");
    free(other);
    free(later);
    /* Version 1 had no counts. */
    later = with(text, "\"version\":2", "\"version\":1");
    assert_int_equal(parse(later, &err), PST_ERR_CONFIG);
    other = with(
        later, ",\"counts\":{\"step\":0,\"samples\":0,\"updates\":0,\"skipped\":0,\"each\":0}", "");
    assert_int_equal(parse(other, &err), PST_OK);
    free(other);
    free(later);
    free(text);
}

/* Boxes in row-major order: rows of one axis, whole behind it, of one index before it. */
TEST(boxes)
{
    struct pst_checkpoint_tensor tensor = {.rank = 3, .shape = {2, 3, 4}};
    struct pst_checkpoint_piece piece = {.begin = {1, 1, 0}, .shape = {1, 2, 4}};

    assert_int_equal(pst_checkpoint_box(&tensor, &piece, 16), 8);
    assert_int_equal(pst_checkpoint_box(&tensor, &piece, 15), 0);
    piece = (struct pst_checkpoint_piece){.begin = {1, 1, 2}, .shape = {1, 1, 2}};
    assert_int_equal(pst_checkpoint_box(&tensor, &piece, 18), 2);
    piece = (struct pst_checkpoint_piece){.begin = {0, 0, 0}, .shape = {2, 3, 4}};
    assert_int_equal(pst_checkpoint_box(&tensor, &piece, 0), 24);
    piece = (struct pst_checkpoint_piece){.begin = {0, 1, 0}, .shape = {2, 2, 4}};
    assert_int_equal(pst_checkpoint_box(&tensor, &piece, 4), 0);
    piece = (struct pst_checkpoint_piece){.begin = {1, 0, 0}, .shape = {2, 3, 4}};
    assert_int_equal(pst_checkpoint_box(&tensor, &piece, 12), 0);
    tensor.rank = 0;
    assert_int_equal(pst_checkpoint_box(&tensor, &piece, 0), 1);
}
