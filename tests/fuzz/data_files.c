/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of training data: the first byte says of which kind, the others are the file. Arrays are
 * their own labels. Megatron's index is the file; the second byte says how much it is an index of.
 * Text is lines of JSON.
 */
#include "unit/graph/model_support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "fuzz.h"
#include "data/data_impl.h"

static char folder[] = "/tmp/penstock-fuzz-XXXXXX", file[64], partner[64], lines[64];
static struct pst_graph *gpt, *mlp, *resnet;

static void leave(void)
{
    unlink(file);
    unlink(partner);
    unlink(lines);
    rmdir(folder);
}

void fuzz_begin(void)
{
    if (mkdtemp(folder) == NULL) {
        fuzz_fail("no folder");
    }
    snprintf(file, sizeof file, "%s/x.bin", folder);
    snprintf(partner, sizeof partner, "%s/x.idx", folder);
    snprintf(lines, sizeof lines, "%s/x.jsonl", folder);
    gpt = make_model("gpt", "layers=1 dim=8 heads=1 context=4 vocab=256", PST_F32);
    mlp = make_model("mlp", "inputs=1 hidden=4 layers=1 classes=10", PST_F32);
    resnet = make_model("resnet", "image=32 classes=100 width=8 stages=1 blocks=1", PST_F32);
    atexit(leave);
}

static void put(const char *path, const void *bytes, size_t n)
{
    FILE *out = fopen(path, "wb");

    if (out == NULL || (n > 0 && fwrite(bytes, 1, n, out) != n) || fclose(out) != 0) {
        fuzz_fail("%s cannot be written", path);
    }
}

/* A few samples of each split, from the begin and from far on. */
static void read_some(const struct pst_data *data)
{
    static double buffers[2][32 * 32 * 3];
    struct pst_error err = {0};

    for (uint32_t split = 0; split < 2; split++) {
        for (uint64_t i = 0; i < 8 && pst_data_samples(data, split) > 0; i++) {
            fuzz_judge(pst_data_read(data, split, i * i * 1000003, 1,
                                     (void *[]){buffers[0], buffers[1]}, &err),
                       &err);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char *const kinds[] = {"tokens",  "llmc",     "megatron", "npy",
                                        "cifar10", "cifar100", "mnist",    "text"};
    struct pst_training training = {.data = {.train = file, .valid_fraction = 0.1, .seed = 1}};
    struct pst_job job = {.training = &training};
    struct pst_data *data = NULL;
    struct pst_error err = {0};
    const struct pst_graph *graph;
    const char *kind;

    if (size < 2) {
        return 0;
    }
    kind = job.training->data.kind = kinds[(bytes[0] - '0') % 8u];
    if (strcmp(kind, "text") == 0) {
        job.training->data.train = lines;
        put(lines, bytes + 1, size - 1);
    } else if (strcmp(kind, "megatron") == 0) {
        put(partner, bytes + 2, size - 2);
        put(file, (const char[512]){0}, 2 * (size_t)bytes[1]);
    } else {
        put(file, bytes + 1, size - 1);
    }
    if (strcmp(kind, "npy") == 0 || strcmp(kind, "mnist") == 0) {
        job.training->data.train_labels = file;
    }
    graph = pst_data_kind_of(kind)->tokens         ? gpt
            : pst_data_kind_of(kind)->n_labels > 0 ? resnet
                                                   : mlp;
    if (fuzz_judge(pst_data_create(&job, graph, &data, &err), &err)) {
        read_some(data);
        pst_data_destroy(data);
    }
    return 0;
}
