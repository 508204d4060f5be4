//! Who keeps the objects of a process: `who PID [CLASS...]`.

#![expect(clippy::print_stdout, reason = "printing is the purpose of this example")]

use carat_outside::census::LookOptions;
use carat_outside::readings::look;
use carat_outside::who::{SoleHolder, WhoRequest};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(process) = arguments.next().and_then(|number| number.parse().ok()) else { return };
    let who = Some(WhoRequest { classes: arguments.collect(), ..WhoRequest::default() });
    let census = match look(process, &LookOptions { who, ..LookOptions::default() }) {
        Ok(census) => census,
        Err(refused) => return println!("{refused}"),
    };
    println!("{:?} {:?}", census.unknown, census.cost);
    let Some(who) = census.who else { return };
    println!(
        "{} reached, {:?} garbage, {} left out, {:?}",
        who.reached_objects, who.garbage_objects, who.left_out, who.unnamed
    );
    let sole = |holder: &SoleHolder| {
        println!("  without {}: {} objects, {} bytes", holder.way, holder.objects, holder.bytes);
    };
    for class in &who.classes {
        println!(
            "{}: {} objects, {:?} garbage, {} bytes",
            class.name, class.objects, class.garbage_objects, class.bytes
        );
        class.ways.iter().for_each(|way| println!("{:>9}  {}", way.objects, way.way));
        println!("{:>9}  in {} other ways", class.other_objects, class.other_ways);
        class.holder.iter().for_each(sole);
    }
    println!("holders");
    who.holders.iter().for_each(sole);
}
