#include "tool/history/history.hpp"

#include "tool/results/json_rows.hpp"
#include "tool/results/row_meaning.hpp"
#include "tool/results/timestamp.hpp"

#include <fmt/format.h>

namespace octet::tool {

HistoryWriter::HistoryWriter(const ResultKind& kind, const CsvRow& header)
    : kind_(kind), header_(header) {}

std::optional<std::string> HistoryWriter::add(const CsvRow& row) {
  if (off_) return std::nullopt;
  try {
    write(row);
    return std::nullopt;
  } catch (const DatabaseError& error) {
    off_ = true;
    return fmt::format("the history is not written: {}", error.what());
  }
}

// A run is known by its first row, so that one which measured nothing leaves nothing.
void HistoryWriter::write(const CsvRow& row) {
  if (!database_) {
    const auto path = history_path();
    off_ = !path;
    if (off_) return;
    database_ = open_history(*path, true);
  }
  const Record record(header_, row);
  Transaction transaction(*database_);
  const std::int64_t run = run_ ? *run_ : begin_run(record);
  Statement(
      *database_,
      "INSERT INTO results (run, time, test_id, shape, dtype, settings, result, rate, record) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")
      .give(run)
      .give(utc_now())
      .give(record.at("TestID"))
      .give(shape_of(kind_, record))
      .give(record.at("Dtype"))
      .give(settings_of(record))
      .give(record.at("Check"))
      .give(rate_of(kind_, record))
      .give(row_as_json(header_, row))
      .step();
  transaction.commit();
  run_ = run;
}

std::int64_t HistoryWriter::begin_run(const Record& record) {
  Statement(*database_,
            "INSERT INTO runs (began, commit_id, device_sources, device, op, unit) "
            "VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
      .give(utc_now())
      .give(record.at("Commit"))
      .give(record.at("Device Sources"))
      .give(device_of(record))
      .give(kind_.op)
      .give(kind_.unit)
      .step();
  return database_->last_id();
}

}  // namespace octet::tool
