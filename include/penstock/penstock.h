/* SPDX-License-Identifier: Apache-2.0
 *
 * All of the stable plugin ABI. A plugin includes this and nothing else of penstock.
 */
#ifndef PENSTOCK_PENSTOCK_H
#define PENSTOCK_PENSTOCK_H

#include "abi.h"
#include "build.h"
#include "cluster.h"
#include "data.h"
#include "host.h"
#include "layers.h"
#include "memopt.h"
#include "memopt_global.h"
#include "model.h"
#include "operator.h"
#include "ops.h"
#include "params.h"
#include "partitioner.h"
#include "plugin.h"
#include "scheduler.h"
#include "simple.h"

#include "ext/ask.h"
#include "ext/claim.h"
#include "ext/cost.h"
#include "ext/eval.h"
#include "ext/profile.h"
#include "ext/remark.h"
#include "ext/rng.h"
#include "ext/scratch.h"
#include "ext/trial.h"

#endif
