// The part of SQLite that the history needs. Every failure is a DatabaseError that names the file.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace octet::tool {

class DatabaseError : public std::runtime_error {
 public:
  DatabaseError(const std::string& message, int code) : std::runtime_error(message), code_(code) {}
  int code() const { return code_; }  // SQLite's error code

 private:
  int code_;
};

class Database {
 public:
  // Waits for other writers as long as a short transaction may take. `create`: creates a missing
  // file.
  Database(const std::string& path, bool create);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void execute(const std::string& sql);
  std::int64_t whole(const std::string& sql);  // the one value of a query
  std::int64_t last_id() const { return sqlite3_last_insert_rowid(database_); }
  sqlite3* handle() const { return database_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  sqlite3* database_ = nullptr;
};

// Rolls back unless commit() is called.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database) {
    database_.execute("BEGIN IMMEDIATE");  // write lock now: upgrading a read lock may fail
  }
  ~Transaction() {
    if (!committed_) sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit() {
    database_.execute("COMMIT");
    committed_ = true;
  }

 private:
  Database& database_;
  bool committed_ = false;
};

// A query whose parameters ?1, ?2 ... are given in order.
class Statement {
 public:
  Statement(Database& database, const std::string& sql);
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& give(const std::string& text);
  Statement& give(std::int64_t number);
  Statement& give(double number);  // NaN: NULL

  bool step();  // whether there is another row
  std::string text(int column) const;
  std::int64_t whole(int column) const { return sqlite3_column_int64(statement_, column); }
  double real(int column) const;  // NaN for NULL

 private:
  void require_ok(int code) const;

  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
  int given_ = 0;
};

}  // namespace octet::tool
