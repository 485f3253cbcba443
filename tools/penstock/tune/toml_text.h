/* SPDX-License-Identifier: Apache-2.0
 *
 * A config that was made, written down as the file that a user would write.
 */
#ifndef PST_TUNE_TOML_TEXT_H
#define PST_TUNE_TOML_TEXT_H

#include <stdbool.h>

/* Does the name end in .toml? */
bool pst_toml_is_name(const char *file);

/* The text of a config, which is in the JSON form of pst_config_to_json, for that file: paths are
   meant from its folder. plan: that the config runs, in the same folder; NULL: it searches. free()
   it. */
char *pst_toml_of_config(const char *config_json, const char *file, const char *plan);

#endif
