// The tuning table: what `octet tune` found to be fastest, a problem a line. Without one, octet chooses by its
// cost models.
#pragma once

#include <octet/export.h>

#include <string>

namespace octet {

// Plans made from now on look here where neither PlanOptions nor the environment forces a choice. Without a call
// the table is that of OCTET_TUNING_TABLE, which is read once, by the first plan. An empty path: no table. Throws
// Error(file_error) if the file cannot be read and Error(invalid_argument) if it is something else or not whole; then
// the table is the one before. Set it before the first plan, so that every rank of a job chooses alike.
OCTET_API void set_tuning_table(const std::string& path);
// The path of the table in use; empty: none. Reads that of OCTET_TUNING_TABLE if no plan has yet.
OCTET_API std::string tuning_table();

}  // namespace octet
