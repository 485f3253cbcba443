/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PST_MEASURE_PARTS_H
#define PST_MEASURE_PARTS_H

#include "session/session.h"

/* What this program brings to sessions. Whoever links it has told it (tools/penstock/CMakeLists.txt
   has the linker take this file): tests, benchmarks and fuzzers, too. */
extern const struct pst_session_parts pst_program_parts;

#endif
