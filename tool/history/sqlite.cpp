#include "tool/history/sqlite.hpp"

#include <fmt/format.h>

#include <limits>

namespace octet::tool {
namespace {

constexpr int kBusyMilliseconds = 10'000;

void require(int code, const Database& database) {
  if (code == SQLITE_OK) return;
  throw DatabaseError(fmt::format("{}: {}", database.path(), sqlite3_errmsg(database.handle())),
                      code);
}

}  // namespace

Database::Database(const std::string& path, bool create) : path_(path) {
  const int flags = SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0);
  const int code = sqlite3_open_v2(path.c_str(), &database_, flags, nullptr);
  if (code != SQLITE_OK) {
    const std::string message = sqlite3_errmsg(database_);
    sqlite3_close(database_);
    throw DatabaseError(fmt::format("{}: {}", path, message), code);
  }
  sqlite3_busy_timeout(database_, kBusyMilliseconds);
}

Database::~Database() { sqlite3_close(database_); }

void Database::execute(const std::string& sql) {
  require(sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, nullptr), *this);
}

std::int64_t Database::whole(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.whole(0) : 0;
}

Statement::Statement(Database& database, const std::string& sql) : database_(database) {
  require_ok(sqlite3_prepare_v2(database_.handle(), sql.c_str(), -1, &statement_, nullptr));
}

void Statement::require_ok(int code) const { require(code, database_); }

Statement& Statement::give(const std::string& text) {
  require_ok(sqlite3_bind_text(statement_, ++given_, text.data(), static_cast<int>(text.size()),
                               SQLITE_TRANSIENT));
  return *this;
}

Statement& Statement::give(std::int64_t number) {
  require_ok(sqlite3_bind_int64(statement_, ++given_, number));
  return *this;
}

Statement& Statement::give(double number) {
  require_ok(sqlite3_bind_double(statement_, ++given_, number));
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code != SQLITE_ROW && code != SQLITE_DONE) require_ok(code);
  return code == SQLITE_ROW;
}

std::string Statement::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return text == nullptr
             ? std::string()
             : std::string(text,
                           static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
}

double Statement::real(int column) const {
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return sqlite3_column_double(statement_, column);
}

}  // namespace octet::tool
