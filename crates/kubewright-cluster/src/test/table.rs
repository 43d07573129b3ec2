//! Lists as people see them.

use serde::Deserialize;
use serde_json::Value;

/// A list as the server prints it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Table {
    column_definitions: Vec<Column>,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
    priority: i32,
}

#[derive(Deserialize)]
struct Row {
    cells: Vec<Value>,
}

impl Table {
    pub(super) fn printed(&self) -> String {
        let is_shown = |at: &usize| self.column_definitions[*at].priority == 0;
        let columns: Vec<usize> = (0..self.column_definitions.len()).filter(is_shown).collect();
        let cell = |row: &Row, at: usize| match &row.cells[at] {
            Value::Null => "<none>".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let header = columns.iter().map(|at| self.column_definitions[*at].name.to_uppercase()).collect();
        let rows = self.rows.iter().map(|row| columns.iter().map(|at| cell(row, *at)).collect());
        let lines: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
        let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0) + 3;
        let print = |line: &Vec<String>| {
            let cells = line.iter().enumerate().map(|(column, cell)| format!("{cell:<0$}", width(column)));
            cells.collect::<String>().trim_end().to_owned()
        };
        lines.iter().map(print).collect::<Vec<_>>().join("\n")
    }
}
