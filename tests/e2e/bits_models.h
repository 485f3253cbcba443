/* SPDX-License-Identifier: Apache-2.0
 *
 * Small models, and the runs that every one of them makes: with one micro-batch size every cut,
 * order and memory action gives the same losses and gradient norms, bit for bit. Include cmocka
 * before.
 */
#ifndef PENSTOCK_TESTS_BITS_MODELS_H
#define PENSTOCK_TESTS_BITS_MODELS_H

#include "bits.h"

static const char bits_gpt[] =
    "[model]\nuse = \"gpt\"\nlayers = 3\ndim = 16\nheads = 2\ncontext = 12\n"
    "dropout = 0.1\n"
    "[data]\nkind = \"text\"\ntrain = \"/usr/share/common-licenses/GPL-2\"\n";
static const char bits_resnet[] =
    "[model]\nuse = \"resnet\"\ndepth = \"custom\"\nimage = 8\nstages = 2\n"
    "blocks = 1\nwidth = 8\nclasses = 4\n"
    "[data]\nkind = \"synthetic\"\n";
static const char bits_mmt[] =
    "[model]\nuse = \"mmt\"\nbranches = 3\nlayers = 1\ndim = 16\nheads = 2\n"
    "context = 6\ndropout = 0.1\n"
    "[data]\nkind = \"synthetic\"\n";
static const char bits_bert[] =
    "[model]\nuse = \"bert\"\nlayers = 2\ndim = 16\nheads = 2\ncontext = 12\ndropout = 0.1\n"
    "[data]\nkind = \"text\"\ntrain = \"/usr/share/common-licenses/GPL-2\"\n";
static const char bits_dlrm[] =
    "[model]\nuse = \"dlrm\"\nfeatures = 8\nwidth = 16\nentries = 20\nvector = 4\n"
    "[data]\nkind = \"synthetic\"\n";
static const char bits_candle[] = "[model]\nuse = \"candle-uno\"\ndrugs = 1\nwidth = 16\n"
                                  "[data]\nkind = \"synthetic\"\n";
static const char bits_t5[] =
    "[model]\nuse = \"t5\"\ndim = 16\nheads = 2\nhead_dim = 8\nff = 32\ncontext = 12\n"
    "targets = 10\nvocab = 50\ndropout = 0.1\n"
    "[data]\nkind = \"synthetic\"\n";
static const char bits_amoebanet[] = "[model]\nuse = \"amoebanet\"\nfilters = 8\n"
                                     "[data]\nkind = \"synthetic\"\n";
static const char bits_common[] =
    "[train]\nsteps = 3\nbatch = 12\nmicrobatch = 2\nlr = 1e-3\nclip = 0.5\n"
    "eval_every = 0\neval_batches = 0\nsample = 0\nwarmup = 1\n"
    "[cluster]\ndevices = 1\n[partitioner]\nuse = \"uniform\"\n"
    "[scheduler]\nuse = \"gpipe\"\n[[memopt]]\nuse = \"none\"\n";

static const char *const bits_memopts[] = {"memopt.use=none", "memopt.use=full"};
static const char *const bits_partitioners[] = {"partitioner.use=uniform",
                                                "partitioner.use=chain-dp"};

static inline const char *bits_config(const char *name, const char *model)
{
    char config[2048];

    snprintf(config, sizeof config, "%s%s", model, bits_common);
    return support_write(name, config);
}

static inline void bits_check_run(const char *name, const char *path, const char *const *sets,
                                  const struct trace *first)
{
    struct trace trace;

    print_message("%s: %s %s %s %s\n", name, sets[0], sets[1], sets[2], sets[3]);
    bits_train(path, sets, &trace);
    bits_expect_same(sets[1], &trace, first);
}

/* 40 combinations of devices, plain schedulers, memory actions and cuts. *ret_first: of them all.
 */
static inline void bits_check_model(const char *name, const char *path, struct trace *ret_first)
{
    static const char *const devices[] = {"cluster.devices=1", "cluster.devices=2",
                                          "cluster.devices=3", "cluster.devices=4",
                                          "cluster.devices=8"};
    static const char *const schedulers[] = {"scheduler.use=gpipe", "scheduler.use=1f1b"};

    bits_train(path, (const char *const[]){NULL}, ret_first);
    for (uint32_t d = 0; d < 5; d++) {
        for (uint32_t k = 0; k < 8; k++) {
            const char *sets[] = {devices[d], schedulers[k & 1], bits_memopts[k >> 1 & 1],
                                  bits_partitioners[k >> 2], NULL};

            bits_check_run(name, path, sets, ret_first);
        }
    }
    assert_string_not_equal(ret_first->losses[0], ret_first->losses[ret_first->n_steps - 1]);
}

/* Eight of them, in which every choice meets every other. */
static inline void bits_check_some(const char *name, const char *path)
{
    static const char *const devices[] = {"cluster.devices=2", "cluster.devices=3",
                                          "cluster.devices=4", "cluster.devices=8"};
    struct trace first;

    bits_train(path, (const char *const[]){NULL}, &first);
    for (uint32_t k = 0; k < 8; k++) {
        const char *sets[] = {devices[k / 2],
                              (k + k / 2) % 2 == 0 ? "scheduler.use=gpipe" : "scheduler.use=1f1b",
                              bits_memopts[k % 2], bits_partitioners[k / 4], NULL};

        bits_check_run(name, path, sets, &first);
    }
    assert_string_not_equal(first.losses[0], first.losses[first.n_steps - 1]);
}

#endif
