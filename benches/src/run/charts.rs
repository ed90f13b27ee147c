//! Results as drawings.

use std::{ops::Range, path::Path};

use plotters::{
    backend::SVGBackend,
    chart::ChartBuilder,
    drawing::IntoDrawingArea,
    element::{Circle, DashedPathElement, PathElement, Rectangle, Text},
    prelude::IntoLogRange,
    style::{BLACK, Color, IntoTextStyle, RGBColor, WHITE},
};

use crate::{
    Failure, Result,
    run::{
        args::SuiteName,
        record::{Chart, Part, Results, Row},
    },
    stats::Sample,
    suites,
};

const SIZE: (u32, u32) = (900, 480);
/// Told apart also by those who see fewer colours (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
    RGBColor(170, 160, 0),
];
/// Lengths of a dash and of the gap behind it, in pixels.
const DASHES: [(i32, i32); 4] = [(1, 0), (7, 4), (2, 4), (14, 4)];
/// Between two lines of a legend, in pixels.
const LINE_HEIGHT: i32 = 18;

/// A drawing that was made.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) suite: SuiteName,
    pub(crate) part: &'static str,
    pub(crate) figure: &'static str,
    pub(crate) file: String,
}

/// Draws all that the suites want drawn into `dir`.
pub(crate) fn draw(results: &Results, dir: &Path) -> Result<Vec<Drawn>> {
    std::fs::create_dir_all(dir)?;
    let mut drawn = Vec::new();
    for (suite, parts) in suites::ALL {
        for part in *parts {
            let rows = |row: &&Row| row.suite == *suite && row.part == part.name;
            let rows: Vec<_> = results.rows.iter().filter(rows).collect();
            for chart in part.charts {
                let (Chart::Lines(figure) | Chart::Bars(figure)) = *chart;
                let file = format!("{}-{}-{}.svg", suite.name(), part.name, slug(figure));
                let made = match chart {
                    Chart::Lines(_) => lines(&dir.join(&file), part, figure, &rows)?,
                    Chart::Bars(_) => bars(&dir.join(&file), part, figure, &rows)?,
                };
                if made {
                    drawn.push(Drawn { suite: *suite, part: part.name, figure, file });
                }
            }
        }
    }
    Ok(drawn)
}

fn slug(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// The range of some positive numbers with a little room, for a logarithmic axis; none if there is no such number.
fn range(numbers: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let numbers = numbers.filter(|number| number.is_finite() && *number > 0.0);
    let (least, most) = numbers.fold((f64::MAX, 0.0_f64), |(least, most), n| (least.min(n), most.max(n)));
    (most > 0.0).then_some(least / 1.25..most * 1.25)
}

/// One line of a chart: a store has its colour, and a side its dashes.
struct Line<'a> {
    name: String,
    colour: RGBColor,
    dash: (i32, i32),
    points: Vec<(f64, &'a Sample)>,
}

fn series<'a>(figure: &str, rows: &[&'a Row]) -> Vec<Line<'a>> {
    let mut series: Vec<Line<'a>> = Vec::new();
    let stores = distinct(rows.iter().map(|row| row.backend.as_str()));
    for row in rows {
        let (Some(x), Some(sample)) = (row.x, row.figure(figure)) else { continue };
        if sample.min <= 0.0 || x <= 0.0 {
            continue;
        }
        let name = label(row, rows);
        if let Some(line) = series.iter_mut().find(|line| line.name == name) {
            line.points.push((x, sample));
            continue;
        }
        // Sides are numbered within their store: raw drivers have a name of their own on each.
        let ours = rows.iter().filter(|other| other.backend == row.backend);
        let side = position(&distinct(ours.map(|row| row.side.as_str())), &row.side);
        let colour = COLOURS[position(&stores, &row.backend) % COLOURS.len()];
        series.push(Line { name, colour, dash: DASHES[side % DASHES.len()], points: vec![(x, sample)] });
    }
    series
}

/// One line a store and side over what varies; false if there is nothing to draw.
fn lines(file: &Path, part: &Part, figure: &str, rows: &[&Row]) -> Result<bool> {
    let series = series(figure, rows);
    let points = || series.iter().flat_map(|line| &line.points);
    let (Some(xs), Some(ys)) =
        (range(points().map(|(x, _)| *x)), range(points().flat_map(|(_, sample)| [sample.min, sample.max])))
    else {
        return Ok(false);
    };
    let height = SIZE.1.max(u32::try_from(series.len())?.saturating_mul(LINE_HEIGHT.unsigned_abs()) + 90);
    let root = SVGBackend::new(file, (SIZE.0, height)).into_drawing_area();
    root.fill(&WHITE).map_err(broken)?;
    let (plot, legend) = root.split_horizontally(SIZE.0 - 240);
    let mut chart = ChartBuilder::on(&plot)
        .caption(part.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(xs.log_scale(), ys.log_scale())
        .map_err(broken)?;
    let (x_text, y_text) = (|x: &f64| short(*x), |y: &f64| short(*y));
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(part.at).y_desc(figure).x_label_formatter(&x_text).y_label_formatter(&y_text);
    mesh.light_line_style(BLACK.mix(0.05)).bold_line_style(BLACK.mix(0.12)).draw().map_err(broken)?;
    for (index, line) in series.iter().enumerate() {
        let (colour, (dash, gap)) = (line.colour, line.dash);
        let stroke = colour.stroke_width(2);
        let medians: Vec<_> = line.points.iter().map(|(x, sample)| (*x, sample.median)).collect();
        let y = 60 + LINE_HEIGHT * i32::try_from(index)?;
        let sample = vec![(8, y), (32, y)];
        if gap == 0 {
            chart.draw_series([PathElement::new(medians, stroke)]).map_err(broken)?;
            legend.draw(&PathElement::new(sample, stroke)).map_err(broken)?;
        } else {
            chart.draw_series([DashedPathElement::new(medians, dash, gap, stroke)]).map_err(broken)?;
            legend.draw(&DashedPathElement::new(sample, dash, gap, stroke)).map_err(broken)?;
        }
        let font = ("sans-serif", 12).into_text_style(&legend);
        legend.draw(&Text::new(line.name.clone(), (40, y - 6), font)).map_err(broken)?;
        let spread = |(x, sample): &(f64, &Sample)| {
            PathElement::new([(*x, sample.min), (*x, sample.max)], colour.mix(0.6).stroke_width(1))
        };
        chart.draw_series(line.points.iter().map(spread)).map_err(broken)?;
        let dot = |(x, sample): &(f64, &Sample)| Circle::new((*x, sample.median), 3, colour.filled());
        chart.draw_series(line.points.iter().map(dot)).map_err(broken)?;
    }
    root.present().map_err(broken)?;
    Ok(true)
}

/// Those that occur, in the order in which they come.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

fn position(names: &[&str], name: &str) -> usize {
    names.iter().position(|known| *known == name).unwrap_or(0)
}

/// One bar a row, lying; false if there is nothing to draw.
fn bars(file: &Path, part: &Part, figure: &str, rows: &[&Row]) -> Result<bool> {
    let stores = distinct(rows.iter().map(|row| row.backend.as_str()));
    let found: Vec<(String, RGBColor, &Sample)> = rows
        .iter()
        .filter_map(|row| {
            let at = if rows.iter().all(|other| other.at == row.at) { "" } else { row.at.as_str() };
            let name = format!("{} {at}", label(row, rows)).trim_end().to_owned();
            Some((name, COLOURS[position(&stores, &row.backend) % COLOURS.len()], row.figure(figure)?))
        })
        .filter(|(.., sample)| sample.max.is_finite())
        .collect();
    let most = found.iter().map(|(.., sample)| sample.max).fold(0.0, f64::max);
    if most <= 0.0 {
        return Ok(false);
    }
    let height = u32::try_from(found.len())?.saturating_mul(22) + 110;
    let root = SVGBackend::new(file, (SIZE.0, height)).into_drawing_area();
    root.fill(&WHITE).map_err(broken)?;
    let count = i32::try_from(found.len())?;
    let mut chart = ChartBuilder::on(&root)
        .caption(part.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(240)
        .build_cartesian_2d(0.0..most * 1.1, (f64::from(-count) - 0.5)..-0.5)
        .map_err(broken)?;
    let name = |y: &f64| {
        let whole = (y - y.round()).abs() < 0.01;
        let of_row = |row: &(usize, &(String, RGBColor, &Sample))| (row.0 as f64 + 1.0 + y).abs() < 0.01;
        let found = found.iter().enumerate().find(of_row).filter(|_| whole);
        found.map(|(_, (name, ..))| name.clone()).unwrap_or_default()
    };
    let x_text = |x: &f64| short(*x);
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(figure).y_labels(found.len() * 2 + 1).y_label_formatter(&name).x_label_formatter(&x_text);
    mesh.disable_y_mesh()
        .light_line_style(BLACK.mix(0.05))
        .bold_line_style(BLACK.mix(0.12))
        .draw()
        .map_err(broken)?;
    for (index, (_, colour, sample)) in found.iter().enumerate() {
        let y = -(index as f64) - 1.0;
        let bar = Rectangle::new([(0.0, y - 0.3), (sample.median, y + 0.3)], colour.mix(0.8).filled());
        chart.draw_series([bar]).map_err(broken)?;
        let spread = PathElement::new([(sample.min, y), (sample.max, y)], BLACK.stroke_width(1));
        chart.draw_series([spread]).map_err(broken)?;
    }
    root.present().map_err(broken)?;
    Ok(true)
}

/// Store and side; the side only where there are several.
fn label(row: &Row, rows: &[&Row]) -> String {
    if rows.iter().all(|other| other.side == row.side) {
        row.backend.clone()
    } else {
        format!("{}, {}", row.backend, row.side)
    }
}

/// 1500 as 1.5k.
fn short(number: f64) -> String {
    let (value, unit) = match number.abs() {
        size if size >= 1e6 => (number / 1e6, "M"),
        size if size >= 1e3 => (number / 1e3, "k"),
        _ => (number, ""),
    };
    let text = format!("{value:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn broken(error: impl std::error::Error) -> Failure {
    format!("drawing: {error}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_axes_are_short() {
        for (number, text) in [(100.0, "100"), (1500.0, "1.5k"), (2e6, "2M"), (0.25, "0.25"), (0.0, "0")] {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn a_logarithmic_axis_leaves_out_what_it_cannot_show() {
        assert_eq!(range([0.0, -1.0, f64::NAN].into_iter()), None);
        assert_eq!(range([0.0, 4.0, 10.0].into_iter()), Some(3.2..12.5));
    }
}
