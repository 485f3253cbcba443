/* SPDX-License-Identifier: Apache-2.0
 *
 * Small models for runs that are compared bit by bit; those of cases in text are in bits_rig.txt.
 * Include cmocka before.
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
static const char bits_common[] =
    "[train]\nsteps = 3\nbatch = 12\nmicrobatch = 2\nlr = 1e-3\nclip = 0.5\n"
    "eval_every = 0\neval_batches = 0\nsample = 0\nwarmup = 1\n"
    "[cluster]\ndevices = 1\n[partitioner]\nuse = \"uniform\"\n"
    "[scheduler]\nuse = \"gpipe\"\n[[memopt]]\nuse = \"none\"\n";

static inline const char *bits_config(const char *name, const char *model)
{
    char config[2048];

    snprintf(config, sizeof config, "%s%s", model, bits_common);
    return support_write(name, config);
}

#endif
